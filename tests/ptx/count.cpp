/* count.cpp - writes what kernels cost; see ptx.h */
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>

#include "ptx.h"

/* attention_forward<__nv_bfloat16, 256>, without the arguments */
static std::string readable(const std::string &name)
{
    int rc = 0;
    char *text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &rc);
    std::string s = text == nullptr ? name : text;
    int deep = 0;

    free(text);
    if (s.compare(0, 5, "void ") == 0) s.erase(0, 5);
    const std::string unnamed = "(anonymous namespace)::";
    for (size_t at; (at = s.find(unnamed)) != std::string::npos;)
        s.erase(at, unnamed.size());
    for (size_t i = 0; i < s.size(); i++) {
        if (s[i] == '<') deep++;
        if (s[i] == '>') deep--;
        if (s[i] == '(' && deep == 0) {
            s.erase(i);
            break;
        }
    }
    for (size_t at; (at = s.find("(int)")) != std::string::npos;)
        s.erase(at, 5);
    for (size_t at; (at = s.find("__nv_bfloat16")) != std::string::npos;)
        s.replace(at, 13, "bf16");
    for (size_t at; (at = s.find(' ')) != std::string::npos;) s.erase(at, 1);
    return s;
}

void ptx_count_add(const std::string &kernel, const ptx_counts *c)
{
    const char *path = getenv("PTX_COUNTS");
    FILE *f = path == nullptr ? nullptr : fopen(path, "a");

    if (f == nullptr) return;
    const u64 v[] = {c->launches, c->blocks, c->instructions, c->products,
                     c->loads, c->load_bytes, c->load_sectors, c->stores,
                     c->store_bytes, c->store_sectors, c->shared,
                     c->conflicts, c->matrix_loads, c->matrix_conflicts,
                     c->barriers, c->slots, c->cycles, c->threads,
                     c->shared_bytes};
    fprintf(f, "%s", readable(kernel).c_str());
    for (u64 x : v) fprintf(f, "\t%llu", static_cast<unsigned long long>(x));
    fprintf(f, "\n");
    fclose(f);
}
