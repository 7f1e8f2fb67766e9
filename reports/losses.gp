# losses.gp - draws losses.svg and losses.png from losses.dat
reset
set encoding utf8
svg = "svg size 900,420 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 900,420 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set title "Loss by wave"
set xlabel "wave"
set ylabel "loss, nats a token"
set yrange [0:*]
set key top right
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "losses.".kind
  plot "losses.dat" index 0 using 1:2 with linespoints pointtype 7 pointsize 0.7 linewidth 2 linecolor '#0072b2' title "train.cp1.ep1", \
    "losses.dat" index 1 using 1:2 with linespoints pointtype 4 pointsize 0.7 linewidth 2 linecolor '#e69f00' title "train.cp2.ep2"
  unset output
}
