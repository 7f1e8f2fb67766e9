# event, GB of boundaries; attention; attention records; GDN; residual, norm; MoE dispatch, routing; MoE experts; shared expert; gradients; workspace, head; other
10 0.001000 0.002000 0.004000 0.008000 0.016000 0.096000 0.128000 0.256000 0.003000 0.012000 0.240000
110 0.002000 0.004000 0.008000 0.016000 0.032000 0.192000 0.256000 0.512000 0.006000 0.024000 0.480000
210 0.004000 0.008000 0.016000 0.032000 0.064000 0.384000 0.512000 1.024000 0.012000 0.048000 0.960000

# t.gp - draws t.svg and t.png from t.dat
reset
set encoding utf8
svg = "svg size 1000,560 dynamic enhanced font 'sans,14' background '#ffffff'"
png = "pngcairo size 1000,560 enhanced font 'sans,11'"
set datafile missing '?'
set border 3 linecolor '#555555'
set tics nomirror out
set grid ytics linecolor '#dddddd' linewidth 1
set title "real-waves/pack-0, wave 0, rank 0: above what was there when it began"
set xlabel "allocations and releases of the wave"
set ylabel "GB"
set xrange [0:240]
set yrange [0:*<1e9]
set offsets 0, 0, graph 0.08, 0
set key outside right center vertical reverse Left
set style fill solid 1.0 noborder
set style textbox opaque noborder
set label 1 "forward" at 0, graph 0.97 offset 0.5,0 left front
set arrow 3 from 120, graph 0 to 120, graph 1 nohead dashtype 3 linecolor '#555555' front
set label 3 "backward" at 120, graph 0.97 offset 0.5,0 left front
set label 4 "peak 3.457 GB: backward, layer 7, gdn.o" at 210, 3.456789 point pointtype 7 offset -1,0.7 right front boxed
do for [kind in "svg png"] {
  set terminal @svg
  if (kind eq "png") { set terminal @png }
  set output "t.".kind
  plot "t.dat" using 1:(sum [k=2:12] column(k)) with filledcurves x1 linecolor '#bbbbbb' title "other", \
    "t.dat" using 1:(sum [k=2:11] column(k)) with filledcurves x1 linecolor '#777777' title "workspace, head", \
    "t.dat" using 1:(sum [k=2:10] column(k)) with filledcurves x1 linecolor '#aa4499' title "gradients", \
    "t.dat" using 1:(sum [k=2:9] column(k)) with filledcurves x1 linecolor '#882255' title "shared expert", \
    "t.dat" using 1:(sum [k=2:8] column(k)) with filledcurves x1 linecolor '#cc6677' title "MoE experts", \
    "t.dat" using 1:(sum [k=2:7] column(k)) with filledcurves x1 linecolor '#ddcc77' title "MoE dispatch, routing", \
    "t.dat" using 1:(sum [k=2:6] column(k)) with filledcurves x1 linecolor '#999933' title "residual, norm", \
    "t.dat" using 1:(sum [k=2:5] column(k)) with filledcurves x1 linecolor '#117733' title "GDN", \
    "t.dat" using 1:(sum [k=2:4] column(k)) with filledcurves x1 linecolor '#44aa99' title "attention records", \
    "t.dat" using 1:(sum [k=2:3] column(k)) with filledcurves x1 linecolor '#88ccee' title "attention", \
    "t.dat" using 1:(sum [k=2:2] column(k)) with filledcurves x1 linecolor '#332288' title "boundaries", \
    25.115777 with lines dashtype 2 linewidth 2.5 linecolor '#e69f00' title "before, raw", \
    24.737777 with lines dashtype 3 linewidth 2.5 linecolor '#0072b2' title "after, raw"
  unset output
}
