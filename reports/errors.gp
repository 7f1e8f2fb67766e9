# errors.gp - draws errors.svg and errors.png from errors.dat
reset
set encoding utf8
svg = "svg size 1000,580 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 1000,580 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set xtics ("real-40" 0, "random-8" 1, "random-40" 2)
set xrange [-0.6:2.6]
set bmargin at screen 0.216
set lmargin at screen 0.09
set rmargin at screen 0.97
set key at screen 0.5, screen 0.01 center bottom horizontal maxcols 3 reverse Left
set title "Admitted estimate (raw x 1.10) against the peak, cold wave, balanced routing: 3 of 484 cases, the published"
set ylabel "(estimate - peak) / peak, %"
set format y "%+.0f"
set yrange [*<-2:2<*]
set offsets 0, 0, 3, 0
set xzeroaxis linewidth 2 linecolor '#000000' linetype 1
set style fill solid 1.0 noborder
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "errors.".kind
  plot "errors.dat" using ($1-0.267):5:(0.240) with boxes linecolor '#e69f00' title "before, ours", \
    "errors.dat" using ($1+0.000):8:(0.240) with boxes linecolor '#0072b2' title "after, ours", \
    "errors.dat" using ($1+0.267):11:(0.240) with boxes linecolor '#009e73' title "per-rank-any", \
    "errors.dat" using ($1-0.267):6:(0):($7-$6) with vectors heads size screen 0.006,90 linewidth 1.5 linecolor '#222222' title "ours, least to most over all routings", \
    "errors.dat" using ($1+0.000):9:(0):($10-$9) with vectors heads size screen 0.006,90 linewidth 1.5 linecolor '#222222' notitle, \
    "errors.dat" using ($1+0.267):12:(0):($13-$12) with vectors heads size screen 0.006,90 linewidth 1.5 linecolor '#222222' notitle, \
    "errors.dat" using ($1-0.320):3 with points pointtype 5 pointsize 1.2 linecolor '#000000' title "before, published", \
    "errors.dat" using ($1+0.053):4 with points pointtype 13 pointsize 1.2 linecolor '#000000' title "after, published"
  unset output
}
