# wave, tokens; raw error in percent: before, after
0 90000 9.9265 8.2721
1 90003 9.9265 -31.1190

# change.gp - draws change.svg and change.png from change.dat
reset
set encoding utf8
svg = "svg size 900,420 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 900,420 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set xtics ("pack-0" 0, "a?b\"c\\_d" 1) rotate by -25 left
set xrange [-0.6:1.6]
set title "Packed real waves, EP1: raw estimate against the peak"
set ylabel "(estimate - peak) / peak, %"
set format y "%+.0f"
set yrange [*<-1:1<*]
set offsets 0, 0, graph 0.05, graph 0.12
set xzeroaxis linewidth 2 linecolor '#000000' linetype 1
set object 1 rectangle from graph 0, graph 0 to graph 1, first 0 fillcolor '#f7e3d4' fillstyle solid noborder behind
set label 1 "under: the estimate is below the peak" at graph 0.98, graph 0.03 right textcolor '#a04000'
set style fill solid
set key outside right top vertical
set bmargin 5
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "change.".kind
  plot "change.dat" using ($1-0.18):3:(0.32) with boxes linecolor '#e69f00' title "before", \
    "" using ($1+0.18):4:(0.32) with boxes linecolor '#0072b2' title "after"
  unset output
}
