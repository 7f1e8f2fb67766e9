# tokens.gp - draws tokens.svg and tokens.png from tokens.dat
reset
set encoding utf8
svg = "svg size 1000,1217 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 1000,1217 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set xrange [1294:242366]
set yrange [-9.911:24.309]
set format x "%.0s%c"
set logscale x
set xtics (2000, 5000, 10000, 20000, 50000, 100000, 200000)
set ylabel "(estimate - peak) / peak, %"
set format y "%+.0f"
set xzeroaxis linewidth 2 linecolor '#000000' linetype 1
set object 1 rectangle from graph 0, graph 0 to graph 1, first 0 fillcolor '#f7e3d4' fillstyle solid noborder behind
set label 1 "under: the estimate is below the peak" at graph 0.98, graph 0.05 right textcolor '#a04000'
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "tokens.".kind
  set multiplot layout 3,1 title "Raw estimate against the peak, cold waves, balanced routing: 427 of 484 cases"
  set lmargin at screen 0.08
  set rmargin at screen 0.97
  set tmargin at screen 0.9343
  set bmargin at screen 0.7288
  unset key
  set title "before"
  set xlabel ""
  plot "tokens.dat" index 0 using 1:3 with points pointtype 7 pointsize 0.8 linecolor '#0072b2' notitle, \
    "tokens.dat" index 1 using 1:3 with points pointtype 9 pointsize 0.8 linecolor '#e69f00' notitle, \
    "tokens.dat" index 2 using 1:3 with points pointtype 7 pointsize 0.8 linecolor '#009e73' notitle, \
    "tokens.dat" index 3 using 1:3 with points pointtype 9 pointsize 0.8 linecolor '#009e73' notitle, \
    "tokens.dat" index 4 using 1:3 with points pointtype 9 pointsize 0.8 linecolor '#cc79a7' notitle, \
    "tokens.dat" index 5 using 1:3 with points pointtype 7 pointsize 0.8 linecolor '#cc79a7' notitle, \
    "tokens.dat" index 6 using 1:3 with points pointtype 9 pointsize 0.8 linecolor '#56b4e9' notitle, \
    "tokens.dat" index 7 using 1:3 with points pointtype 7 pointsize 0.8 linecolor '#56b4e9' notitle, \
    "tokens.dat" index 8 using 1:3 with points pointtype 9 pointsize 0.8 linecolor '#d55e00' notitle, \
    "tokens.dat" index 9 using 1:3 with points pointtype 9 pointsize 0.8 linecolor '#8c6d1f' notitle, \
    "tokens.dat" using 1:($4 == 1 ? $3 : NaN) with points pointtype 6 pointsize 1.6 linewidth 1.2 linecolor '#d55e00' notitle, \
    -1e9 notitle
  set lmargin at screen 0.08
  set rmargin at screen 0.97
  set tmargin at screen 0.6590
  set bmargin at screen 0.4536
  unset key
  set title "after"
  set xlabel ""
  plot "tokens.dat" index 0 using 1:5 with points pointtype 7 pointsize 0.8 linecolor '#0072b2' notitle, \
    "tokens.dat" index 1 using 1:5 with points pointtype 9 pointsize 0.8 linecolor '#e69f00' notitle, \
    "tokens.dat" index 2 using 1:5 with points pointtype 7 pointsize 0.8 linecolor '#009e73' notitle, \
    "tokens.dat" index 3 using 1:5 with points pointtype 9 pointsize 0.8 linecolor '#009e73' notitle, \
    "tokens.dat" index 4 using 1:5 with points pointtype 9 pointsize 0.8 linecolor '#cc79a7' notitle, \
    "tokens.dat" index 5 using 1:5 with points pointtype 7 pointsize 0.8 linecolor '#cc79a7' notitle, \
    "tokens.dat" index 6 using 1:5 with points pointtype 9 pointsize 0.8 linecolor '#56b4e9' notitle, \
    "tokens.dat" index 7 using 1:5 with points pointtype 7 pointsize 0.8 linecolor '#56b4e9' notitle, \
    "tokens.dat" index 8 using 1:5 with points pointtype 9 pointsize 0.8 linecolor '#d55e00' notitle, \
    "tokens.dat" index 9 using 1:5 with points pointtype 9 pointsize 0.8 linecolor '#8c6d1f' notitle, \
    "tokens.dat" using 1:($6 == 1 ? $5 : NaN) with points pointtype 6 pointsize 1.6 linewidth 1.2 linecolor '#d55e00' notitle, \
    -1e9 notitle
  set lmargin at screen 0.08
  set rmargin at screen 0.97
  set tmargin at screen 0.3837
  set bmargin at screen 0.1783
  set key at screen 0.5, screen 0.0033 center bottom horizontal maxcols 2 reverse Left
  set title "per-rank-any"
  set xlabel "tokens in the wave"
  plot "tokens.dat" index 0 using 1:7 with points pointtype 7 pointsize 0.8 linecolor '#0072b2' notitle, \
    "tokens.dat" index 1 using 1:7 with points pointtype 9 pointsize 0.8 linecolor '#e69f00' notitle, \
    "tokens.dat" index 2 using 1:7 with points pointtype 7 pointsize 0.8 linecolor '#009e73' notitle, \
    "tokens.dat" index 3 using 1:7 with points pointtype 9 pointsize 0.8 linecolor '#009e73' notitle, \
    "tokens.dat" index 4 using 1:7 with points pointtype 9 pointsize 0.8 linecolor '#cc79a7' notitle, \
    "tokens.dat" index 5 using 1:7 with points pointtype 7 pointsize 0.8 linecolor '#cc79a7' notitle, \
    "tokens.dat" index 6 using 1:7 with points pointtype 9 pointsize 0.8 linecolor '#56b4e9' notitle, \
    "tokens.dat" index 7 using 1:7 with points pointtype 7 pointsize 0.8 linecolor '#56b4e9' notitle, \
    "tokens.dat" index 8 using 1:7 with points pointtype 9 pointsize 0.8 linecolor '#d55e00' notitle, \
    "tokens.dat" index 9 using 1:7 with points pointtype 9 pointsize 0.8 linecolor '#8c6d1f' notitle, \
    "tokens.dat" using 1:($8 == 1 ? $7 : NaN) with points pointtype 6 pointsize 1.6 linewidth 1.2 linecolor '#d55e00' notitle, \
    -1e9 with points pointtype 7 pointsize 0.8 linecolor '#0072b2' title "pr-accuracy, EP2", \
    -1e9 with points pointtype 9 pointsize 0.8 linecolor '#e69f00' title "pr-accuracy-ep1, EP1", \
    -1e9 with points pointtype 7 pointsize 0.8 linecolor '#009e73' title "random, EP2", \
    -1e9 with points pointtype 9 pointsize 0.8 linecolor '#009e73' title "random, EP1", \
    -1e9 with points pointtype 9 pointsize 0.8 linecolor '#cc79a7' title "real-waves, EP1", \
    -1e9 with points pointtype 7 pointsize 0.8 linecolor '#cc79a7' title "real-waves, EP2", \
    -1e9 with points pointtype 9 pointsize 0.8 linecolor '#56b4e9' title "full-stack, EP1", \
    -1e9 with points pointtype 7 pointsize 0.8 linecolor '#56b4e9' title "full-stack, EP2", \
    -1e9 with points pointtype 9 pointsize 0.8 linecolor '#d55e00' title "fallbacks, Qwen3.6-35B-A3B, EP1", \
    -1e9 with points pointtype 9 pointsize 0.8 linecolor '#8c6d1f' title "fallbacks, Qwen3.6-27B, EP1", \
    -1e9 with points pointtype 6 pointsize 1.6 linewidth 1.2 linecolor '#d55e00' title "under"
  unset multiplot
  unset output
}
