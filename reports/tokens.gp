# tokens.gp - draws tokens.svg and tokens.png from tokens.dat
reset
set encoding utf8
svg = "svg size 900,1080 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 900,1080 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set ylabel "(estimate - peak) / peak, %"
set format y "%+.0f"
set logscale x
set format x "%.0s%c"
set yrange [*<-1:1<*]
set offsets 0, 0, 1, 0.5
set xzeroaxis linewidth 2 linecolor '#000000' linetype 1
set object 1 rectangle from graph 0, first -1000 to graph 1, first 0 fillcolor '#f7e3d4' fillstyle solid noborder behind
set label 1 "under: the estimate is below the peak" at graph 0.98, graph 0.03 right textcolor '#a04000'
set key outside right top vertical reverse Left
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "tokens.".kind
  set multiplot layout 3,1 title "Raw estimate against the peak, cold waves, balanced routing: 427 of 484 cases"
  set title "before"
  set xlabel ""
  plot "tokens.dat" index 0 using 1:3 with points pointtype 9 pointsize 0.9 linecolor '#e69f00' title "EP1", \
    "tokens.dat" index 1 using 1:3 with points pointtype 7 pointsize 0.9 linecolor '#0072b2' title "EP2", \
    "tokens.dat" using 1:($4 == 1 ? $3 : NaN) with points pointtype 6 pointsize 1.6 linewidth 1.2 linecolor '#d55e00' title "under"
  set title "after"
  set xlabel ""
  plot "tokens.dat" index 0 using 1:5 with points pointtype 9 pointsize 0.9 linecolor '#e69f00' title "EP1", \
    "tokens.dat" index 1 using 1:5 with points pointtype 7 pointsize 0.9 linecolor '#0072b2' title "EP2", \
    "tokens.dat" using 1:($6 == 1 ? $5 : NaN) with points pointtype 6 pointsize 1.6 linewidth 1.2 linecolor '#d55e00' title "under"
  set title "per-rank-any"
  set xlabel "tokens in the wave"
  plot "tokens.dat" index 0 using 1:7 with points pointtype 9 pointsize 0.9 linecolor '#e69f00' title "EP1", \
    "tokens.dat" index 1 using 1:7 with points pointtype 7 pointsize 0.9 linecolor '#0072b2' title "EP2", \
    "tokens.dat" using 1:($8 == 1 ? $7 : NaN) with points pointtype 6 pointsize 1.6 linewidth 1.2 linecolor '#d55e00' title "under"
  unset multiplot
  unset output
}
