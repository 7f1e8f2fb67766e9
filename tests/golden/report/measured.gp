# measured.gp - draws measured.svg and measured.png from measured.dat
reset
set encoding utf8
svg = "svg size 900,460 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 900,460 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set logscale x
set xrange [240:10240]
set title "Simulated against measured forward peaks: 5 of 5 cells"
set xlabel "packed rows"
set ylabel "(simulated - measured) / measured, %"
set format x "%.0s%c"
set yrange [*<-1.5:1.5<*]
set xzeroaxis linewidth 2 linecolor '#000000' linetype 1
set object 1 rectangle from graph 0, first -1 to graph 1, first 1 fillcolor '#e8f1e8' fillstyle solid noborder behind
set label 1 "within 1 %" at graph 1.02, first 0 left textcolor '#407040'
set key outside right top vertical reverse Left
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "measured.".kind
  plot "measured.dat" index 2 using 1:3 with points pointtype 9 pointsize 0.9 linecolor '#d55e00' title "selective"
  unset output
}
