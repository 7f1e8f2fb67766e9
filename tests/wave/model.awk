# model.awk - modelled seconds of a wave on one H200; see model.md.
#
# usage: awk -f model.awk COSTS CALLS FIELD DEVICE WAVE
# COSTS: tests/ptx/costs.tsv, what kernels cost the PTX interpreter in the
# calls of tests/ptx/costs.c; CALLS, WAVE: what tests/wave counted of those
# calls and of a wave; FIELD: field.tsv; DEVICE: a summary of reports/device,
# or /dev/null. With -v kernels=1 also a line a kernel.
BEGIN {
    FS = "\t"
    memory = 4.8e12; peak = 989e12; sms = 132
    clock = peak / (sms * 4 * 512 * 2)
    products = 0.629 * peak
    launch = 0.9e-6; wait = 6.7e-6
    registers = 65536; shared = 228 * 1024; threads = 2048; blocks = 32
    matrices = "^(gemm|group_gemm|attention|delta|conv)"
}
function min(a, b) { return a < b ? a : b }
function max(a, b) { return a > b ? a : b }


/^#/ && file != 4 { next }

# kernel instructions mma read-sectors written-sectors turns barriers blocks
# slots cycles threads shared registers
file == 1 && $1 != "kernel" {
    mma[$1] = $3; sectors[$1] = $4 + $5; turns[$1] = $6
    slots[$1] = $9; cycles[$1] = $10
    fit = min(blocks, min(int(threads / $11), int(shared / ($12 + 1024))))
    if ($13 > 0) fit = min(fit, int(registers / ($13 * $11)))
    resident[$1] = max(fit, 1)
}
# How much the operator's calls do of what the kernel's costs grow with.
function units(kernel) {
    if (kernel ~ /^(prefix_experts|add_losses)/)    # one block, always alike
        return file == 2 ? 1 : $3
    return $1 ~ /^(attention|delta)/ && kernel != "attention_delta" ? \
        tiles[file, $1] : $1 ~ /^gemm/ ? operations[file, $1] : \
        bytes[file, $1]
}
(file == 2 || file == 5) && $2 == "-" {
    bytes[file, $1] = $5; operations[file, $1] = $6; tiles[file, $1] = $7
    if (file == 5) { op[++ops] = $1; calls[$1] = $3; least[$1] = $8 / 1e9 }
    next
}
file == 2 { per[$2] += units($2) }

file == 3 {
    class[++classes] = $1; then[$1] = $2; best[$1] = $3
    n = split($4, o, " ")
    for (i = 1; i <= n; i++) class_of[o[i]] = $1
}

file == 4 && /^## / { beside = /beside the copy rate/ }
file == 4 && beside && split($0, m, ",") == 6 && m[2] > 0 {
    ms[m[1]] = m[2]; gb[m[1]] = m[3]; tops[m[1]] = m[5]
}

# Seconds of all launches of a kernel, by what bounds them most.
function seconds(kernel, times, grid, each,    used, t) {
    used = min(sms, grid / times)
    issue = slots[kernel] * each / (4 * used * clock)
    matrix = mma[kernel] * each * 4096 / (products * used / sms)
    turn = turns[kernel] * each / (used * clock)
    move = mma[kernel] > 0 ? 0 : sectors[kernel] * 32 * each / memory
    late = times * max(1, grid / times / (sms * resident[kernel])) * \
        cycles[kernel] * each / grid / clock
    t = max(max(max(issue, matrix), max(turn, move)), late)
    bound = t == late ? "latency" : t == move ? "bytes" : \
        t == matrix ? "mma" : t == issue ? "issue" : "shared"
    return times * launch + t
}
file == 5 && $2 == "malloc" { next }
file == 5 && $2 == "wait" { waits += $3; model[$1] += $3 * wait; next }
file == 5 && $2 == "copy" { copies += $3; model[$1] += $3 * launch; next }
file == 5 && ($2 == "cublas" || $2 == "grouped") {
    library += $3; model[$1] += least[$1] + $3 * launch; next
}
file == 5 {
    launches += $3
    if (!($2 in slots) || !per[$2]) { missing = missing " " $2; next }
    each = units($2) / per[$2]
    s = seconds($2, $3, $4, each)
    model[$1] += s
    moved[$1] += sectors[$2] * 32 * each
    if (kernels) {
        if (!titled++)
            printf "%-28s %-16s %6s %8s %8s %8s %8s %8s %8s  %s\n", "kernel",
                "operator", "times", "seconds", "issue", "mma", "shared",
                "bytes", "latency", "bound by"
        printf "%-28s %-16s %6d %8.4f %8.4f %8.4f %8.4f %8.4f %8.4f  %s\n",
            $2, $1, $3, s, issue, matrix, turn, move, late, bound
    }
}

# What the device took for the operator, by its operations or its bytes.
function measured(o) {
    if (!(o in ms)) return 0
    if (tops[o] > 0.01 && o ~ matrices && o !~ /lora/)
        return ms[o] / 1e3 * operations[5, o] / 1e12 / tops[o]
    return ms[o] / 1e3 * bytes[5, o] / 1e9 / gb[o]
}
function amount(how, x) { return x > 0 ? sprintf(how, x) : "" }
function print_operators(    i, o, m) {
    printf "%-17s %6s %9s %9s %9s %9s %9s %9s\n", "operator", "calls", "GB",
        "GB moved", "Tops", "least s", "model s", "device s"
    for (i = 1; i <= ops; i++) {
        o = op[i]; m = measured(o)
        printf "%-17s %6d %9.1f %9s %9.1f %9.3f %9.3f %9s\n", o, calls[o],
            bytes[5, o] / 1e9, amount("%.1f", moved[o] / 1e9), operations[5, o] / 1e12, least[o], model[o],
            amount("%.3f", m)
    }
}
function print_classes(    i, o, c) {
    for (o in model) {
        c = o in class_of ? class_of[o] : class_of["*"]
        of_class[c] += model[o]; total += model[o]
    }
    printf "\n%-28s %9s %9s %9s\n", "class", "model s", "then s", "best s"
    for (i = 1; i <= classes; i++) {
        c = class[i]
        printf "%-28s %9.2f %9.2f %9.2f\n", c, of_class[c], then[c], best[c]
        all_then += then[c]; all_best += best[c]
    }
    printf "%-28s %9.2f %9.2f %9.2f\n", "wave", total, all_then, all_best
}
END {
    for (i = 1; i <= ops; i++)
        if (!(op[i] in class_of)) {
            floor += bytes[5, op[i]]; traffic += moved[op[i]]
        }
    print_operators()
    print_classes()
    print "(all but the column of the device are estimates, none is measured)"
    printf "kernels %d, library calls %d, copies %d, waits %d\n", launches,
        library, copies, waits
    printf "element by element: %.2f TB, beside %.2f with every tensor read " \
        "and written once: %.2f times\n", traffic / 1e12, floor / 1e12,
        traffic / floor
    if (missing != "") { print "no costs of:" missing; exit 1 }
}
