# errors.gp - draws errors.svg and errors.png from errors.dat
reset
set encoding utf8
svg = "svg size 900,520 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 900,520 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set xtics ("real-40" 0, "real-40.cv-0" 1, "real-40.cv-0.65-seed-1" 2, "real-40.cv-0.65-seed-2" 3, "real-40.cv-1.0-seed-1" 4, "real-40.cv-1.0-seed-2" 5, "real-40.cv-1.2-seed-1" 6, "real-40.cv-1.2-seed-2" 7, "real-40.share-1.0" 8, "real-40.share-1.1" 9, "real-40.share-1.2" 10, "random-8" 11, "random-8.cv-0" 12, "random-8.cv-0.65-seed-1" 13, "random-8.cv-0.65-seed-2" 14, "random-8.cv-1.0-seed-1" 15, "random-8.cv-1.0-seed-2" 16, "random-8.cv-1.2-seed-1" 17, "random-8.cv-1.2-seed-2" 18, "random-8.share-1.0" 19, "random-8.share-1.1" 20, "random-8.share-1.2" 21, "lengths-8.ep2" 22, "random-40" 23) rotate by -35 left
set bmargin 10
set xrange [-0.6:23.6]
set title "Admitted estimate (raw x 1.10) against the peak, cold wave"
set ylabel "(estimate - peak) / peak, %"
set format y "%+.0f"
set yrange [*<-2:2<*]
set offsets 0, 0, 3, 0
set xzeroaxis linewidth 2 linecolor '#000000' linetype 1
set key outside bottom center horizontal
set style fill solid 1.0 noborder
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "errors.".kind
  plot "errors.dat" using ($1-0.21):3:(0.38) with boxes linecolor '#56b4e9' title "before, ours", \
    "" using ($1+0.21):4:(0.38) with boxes linecolor '#0072b2' title "after, ours", \
    "" using ($1-0.21):5 with points pointtype 7 pointsize 1.4 linecolor '#e69f00' title "before, published", \
    "" using ($1+0.21):6 with points pointtype 13 pointsize 1.7 linecolor '#d55e00' title "after, published"
  unset output
}
