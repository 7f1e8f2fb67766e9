/* names.cpp - kernels are static functions: their names stand in the module's
** symbol table alone; see wave.h */
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "tests/wave/wave.h"

static std::vector<char> contents(const char *path)
{
    std::vector<char> all;
    FILE *f = fopen(path, "rb");
    char part[65536];
    size_t n;

    while (f != nullptr && (n = fread(part, 1, sizeof part, f)) > 0)
        all.insert(all.end(), part, part + n);
    if (f != nullptr) fclose(f);
    return all;
}

/* Functions of this module by their offset. */
static std::map<uintptr_t, std::string> symbols(const char *path)
{
    std::map<uintptr_t, std::string> out;
    std::vector<char> file = contents(path);
    Elf64_Ehdr head;

    if (file.size() < sizeof head) return out;
    memcpy(&head, file.data(), sizeof head);
    for (int i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr s, names;
        Elf64_Sym sym;

        memcpy(&s, &file[head.e_shoff + sizeof s * size_t(i)], sizeof s);
        if (s.sh_type != SHT_SYMTAB) continue;
        memcpy(&names, &file[head.e_shoff + sizeof s * s.sh_link], sizeof s);
        for (size_t at = 0; at < s.sh_size; at += sizeof sym) {
            memcpy(&sym, &file[s.sh_offset + at], sizeof sym);
            if (ELF64_ST_TYPE(sym.st_info) == STT_FUNC)
                out[sym.st_value] = &file[names.sh_offset + sym.st_name];
        }
    }
    return out;
}

static void replace(std::string &s, const char *old, const char *with)
{
    for (size_t at; (at = s.find(old)) != std::string::npos;)
        s.replace(at, strlen(old), with);
}

std::string wave_name(const void *kernel)
{
    Dl_info at;
    int rc, deep = 0;

    if (dladdr(kernel, &at) == 0) return "?";
    static const std::map<uintptr_t, std::string> all = symbols(at.dli_fname);
    auto sym = all.find(reinterpret_cast<uintptr_t>(kernel) -
                        reinterpret_cast<uintptr_t>(at.dli_fbase));
    if (sym == all.end()) return "?";
    char *text = abi::__cxa_demangle(sym->second.c_str(), nullptr, nullptr,
                                     &rc);
    std::string s = text != nullptr ? text : sym->second;
    free(text);
    replace(s, "(anonymous namespace)::", "");
    if (s.compare(0, 5, "void ") == 0) s.erase(0, 5);
    for (size_t i = 0; i < s.size(); i++) {
        deep += s[i] == '<' ? 1 : s[i] == '>' ? -1 : 0;
        if (s[i] != '(' || deep > 0) continue;
        s.erase(i);
        break;
    }
    replace(s, "__nv_bfloat16", "bf16");
    replace(s, " ", "");
    return s;
}
