# composition.gp - draws composition.svg and composition.png from composition.dat
reset
set encoding utf8
svg = "svg size 1000,620 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 1000,620 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set xtics ("before" 0, "after" 1, "peak" 2, "before" 4, "after" 5, "peak" 6, "before" 8, "after" 9, "peak" 10)
set xrange [-0.8:10.8]
set bmargin 4
set label 1 "real-40" at 1.0, character 2 center
set label 2 "random-8" at 5.0, character 2 center
set label 3 "random-40" at 9.0, character 2 center
set title "Raw estimates and the peak of the most-loaded rank, cold wave: 3 of 31 cases"
set ylabel "GB"
set yrange [0:*]
set offsets 0, 0, graph 0.08, 0
set key outside right center vertical reverse Left width 1
set style fill solid 1.0 border linecolor '#ffffff'
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "composition.".kind
  plot "composition.dat" using 1:(sum [k=3:13] column(k)):(0.8) with boxes linecolor '#bbbbbb' title "other", \
    "" using 1:(sum [k=3:12] column(k)):(0.8) with boxes linecolor '#777777' title "workspace, head", \
    "" using 1:(sum [k=3:11] column(k)):(0.8) with boxes linecolor '#aa4499' title "gradients", \
    "" using 1:(sum [k=3:10] column(k)):(0.8) with boxes linecolor '#882255' title "shared expert", \
    "" using 1:(sum [k=3:9] column(k)):(0.8) with boxes linecolor '#cc6677' title "MoE experts", \
    "" using 1:(sum [k=3:8] column(k)):(0.8) with boxes linecolor '#ddcc77' title "MoE dispatch, routing", \
    "" using 1:(sum [k=3:7] column(k)):(0.8) with boxes linecolor '#999933' title "residual, norm", \
    "" using 1:(sum [k=3:6] column(k)):(0.8) with boxes linecolor '#117733' title "GDN", \
    "" using 1:(sum [k=3:5] column(k)):(0.8) with boxes linecolor '#44aa99' title "attention records", \
    "" using 1:(sum [k=3:4] column(k)):(0.8) with boxes linecolor '#88ccee' title "attention", \
    "" using 1:(sum [k=3:3] column(k)):(0.8) with boxes linecolor '#332288' title "boundaries", \
    "" using 1:(sum [k=3:13] column(k)):(sprintf("%.1f", sum [k=3:13] column(k))) with labels offset 0,0.7 notitle
  unset output
}
