# wave, loss; a block for each case
# "a"
0 2.500000
1 1.250000
2 0.000001


# "?b?"
0 2.500000
1 1.250000
2 0.000001


# "d\\_e"
0 2.500000
1 1.250000
2 0.000001


# "f"
0 2.500000
1 1.250000
2 0.000001


# "g"
0 2.500000
1 1.250000
2 0.000001


# "h"
0 2.500000
1 1.250000
2 0.000001

# losses.gp - draws losses.svg and losses.png from losses.dat
reset
set encoding utf8
svg = "svg size 900,420 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 900,420 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set title "Loss by wave: the first 6 of 7 cases"
set xlabel "wave"
set ylabel "loss, nats a token"
set yrange [0:*]
set key top right
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "losses.".kind
  plot "losses.dat" index 0 using 1:2 with linespoints pointtype 7 pointsize 0.7 linewidth 2 linecolor '#0072b2' title "a", \
    "losses.dat" index 1 using 1:2 with linespoints pointtype 4 pointsize 0.7 linewidth 2 linecolor '#e69f00' title "?b?", \
    "losses.dat" index 2 using 1:2 with linespoints pointtype 7 pointsize 0.7 linewidth 2 linecolor '#009e73' title "d\\_e", \
    "losses.dat" index 3 using 1:2 with linespoints pointtype 4 pointsize 0.7 linewidth 2 linecolor '#cc79a7' title "f", \
    "losses.dat" index 4 using 1:2 with linespoints pointtype 7 pointsize 0.7 linewidth 2 linecolor '#56b4e9' title "g", \
    "losses.dat" index 5 using 1:2 with linespoints pointtype 4 pointsize 0.7 linewidth 2 linecolor '#d55e00' title "h"
  unset output
}
