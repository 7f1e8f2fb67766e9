/* text.cpp - reads PTX; see ptx.h */
#include "ptx.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

typedef std::string string;

[[noreturn]] static void bad(const string &what, const char *at)
{
    fprintf(stderr, "ptx: %s: %.60s\n", what.c_str(), at);
    abort();
}

/* ---- words -------------------------------------------------------------- */

static bool is_word(char c)
{
    return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' ||
           c == '%' || c == '.' || c == ':';
}

struct words {
    const char *p, *end;

    void skip()
    {
        for (; p < end; p++) {
            if (*p == '/' && p + 1 < end && p[1] == '/') {
                while (p < end && *p != '\n') p++;
            } else if (*p == '/' && p + 1 < end && p[1] == '*') {
                while (p + 1 < end && !(p[0] == '*' && p[1] == '/')) p++;
                p++;
            } else if (*p != '\0' && !isspace(static_cast<unsigned char>(*p)))
                return;
        }
    }
    char peek() { skip(); return p < end ? *p : '\0'; }
    bool take(char c)
    {
        if (peek() != c) return false;
        p++;
        return true;
    }
    void need(char c)
    {
        if (!take(c)) bad(string("expected ") + c, p);
    }
    string word()
    {
        const char *from;

        skip();
        from = p;
        if (p < end && *p == '-') p++;
        while (p < end && is_word(*p)) p++;
        if (from == p) bad("expected a word", p);
        return string(from, p);
    }
    /* to and past the character */
    void past(char c)
    {
        while (p < end && *p != c) p++;
        p++;
    }
};

/* ---- a source ----------------------------------------------------------- */

static size_t type_bytes(const string &t)
{
    size_t at = t.find_first_of("0123456789");

    if (t == ".pred") return 1;
    if (at == string::npos) bad("type", t.c_str());
    return static_cast<size_t>(atoi(t.c_str() + at)) / 8;
}

static ptx_width width_of(const string &t)
{
    return t == ".pred" ? WIDTH_PRED : type_bytes(t) > 4 ? WIDTH_8 : WIDTH_4;
}

/* .align 4 .b8 name[24] = {1, 2, ...}: name, size, what it holds. */
struct variable {
    string name, type;
    size_t align, bytes;
    std::vector<unsigned char> data;
};

static variable read_variable(words &w)
{
    variable v;
    string t = w.word();

    v.align = 0;
    for (; t[0] == '.'; t = w.word()) {
        if (t == ".align") v.align = static_cast<size_t>(atoi(
                                         w.word().c_str()));
        else if (t != ".param" && t != ".ptr" && t != ".global") v.type = t;
    }
    v.name = t;
    v.bytes = type_bytes(v.type);
    if (v.align == 0) v.align = v.bytes;
    if (w.take('[')) {
        size_t n = w.peek() == ']' ? 0 : strtoul(w.word().c_str(), nullptr, 0);
        v.bytes *= n;
        w.need(']');
    }
    if (!w.take('=')) return v;
    if (v.type != ".b8" && v.type != ".u8") bad("bytes alone are read", w.p);
    w.need('{');
    while (!w.take('}')) {
        v.data.push_back(static_cast<unsigned char>(atoi(w.word().c_str())));
        w.take(',');
    }
    return v;
}

static void read_file(words &w, std::unordered_map<int, string> &file)
{
    int n = atoi(w.word().c_str());
    w.need('"');
    const char *from = w.p;
    w.past('"');
    file[n] = string(from, w.p - 1);
}

/* Notes where entries and functions begin, and what globals hold. Bodies are
** passed over. */
ptx_source::ptx_source(const char *text, size_t n)
    : text_(text), end_(text + n),
      file_(std::make_shared<std::unordered_map<int, string>>())
{
    words w = {text, end_};

    while (w.peek() != '\0') {
        if (*w.p == '{') {
            for (int deep = 0; w.p < end_; w.p++) {
                if (*w.p == '{') deep++;
                if (*w.p == '}' && --deep == 0) break;
            }
            w.p++;
            continue;
        }
        if (!is_word(*w.p)) {
            w.p++;
            continue;
        }
        string t = w.word();
        if (t == ".entry") {
            t = w.word();
            entry_[t] = w.p;
        } else if (t == ".func") {
            const char *at = w.p;
            if (w.take('(')) w.past(')');
            func_[w.word()] = at;
        } else if (t == ".file") {
            read_file(w, *file_);
        } else if (t == ".global" || t == ".const") {
            variable v = read_variable(w);
            v.data.resize(v.bytes);
            global_[v.name] = v.data;
            const std::vector<unsigned char> &d = global_[v.name];
            ptx_memory_add(d.data(), d.size());
        } else if (t == ".section") {
            w.word();
        }
    }
}

std::vector<string> ptx_source::entries() const
{
    std::vector<string> names;

    for (const auto &e : entry_) names.push_back(e.first);
    return names;
}

/* ---- a function --------------------------------------------------------- */

struct symbol {
    enum { REG, PARAM_REG, VALUE } kind;
    int64_t value;              /* register, or what the name stands for */
};

struct ptx_reader {
    ptx_source &source;
    ptx_function f;
    words w;
    std::vector<std::unordered_map<string, symbol>> scope;
    std::unordered_map<string, int64_t> label;
    string labels_of;           /* tells labels of inlined calls apart */
    int calls = 0;
    std::unordered_set<int> call_param;     /* registers that are one */
    ptx_place place = {0, 0, 0, 0};

    explicit ptx_reader(ptx_source &s) : source(s), w{nullptr, s.end_} {}

    int new_register(ptx_width width)
    {
        f.reg.push_back(width);
        return static_cast<int>(f.reg.size()) - 1;
    }
    void declare(const string &name, decltype(symbol::VALUE) kind, int64_t v)
    {
        scope.back()[name] = symbol{kind, v};
        if (kind == symbol::PARAM_REG) call_param.insert(static_cast<int>(v));
    }
    const symbol *find(const string &name) const
    {
        for (size_t i = scope.size(); i > 0; i--) {
            auto at = scope[i - 1].find(name);
            if (at != scope[i - 1].end()) return &at->second;
        }
        return nullptr;
    }
    int64_t label_of(const string &name)
    {
        auto at = label.find(labels_of + name);

        if (at != label.end()) return at->second;
        int64_t n = static_cast<int64_t>(f.label.size());
        f.label.push_back(SIZE_MAX);
        return label[labels_of + name] = n;
    }

    void entry_params();
    void func_params(const std::vector<ptx_operand> &arg);
    void body();
    void registers();
    void room(const string &kind);
    void loc();
    void directive(const string &t);
    void statement();
    void call(ptx_statement s);
    ptx_operand operand();
    ptx_operand named(const string &name);
    ptx_operand memory();
};

/* %r<47> are 47 registers, %temp is one. */
void ptx_reader::registers()
{
    ptx_width width = width_of(w.word());

    do {
        string name = w.word();

        if (!w.take('<')) {
            declare(name, symbol::REG, new_register(width));
            continue;
        }
        int n = atoi(w.word().c_str());
        w.need('>');
        for (int i = 0; i < n; i++)
            declare(name + std::to_string(i), symbol::REG,
                    new_register(width));
    } while (w.take(','));
    w.need(';');
}

/* Names of memory stand for where it is in its space. */
void ptx_reader::room(const string &kind)
{
    variable v = read_variable(w);
    size_t *end = kind == ".shared" ? &f.static_shared : &f.local_bytes;

    w.need(';');
    if (kind == ".param") {
        declare(v.name, symbol::PARAM_REG, new_register(width_of(v.type)));
        return;
    }
    *end = (*end + v.align - 1) / v.align * v.align;
    declare(v.name, symbol::VALUE, static_cast<int64_t>(*end));
    *end += v.bytes;
}

/* .loc file line column[, function_name name, inlined_at file line column] */
void ptx_reader::loc()
{
    int number = atoi(w.word().c_str()), line = atoi(w.word().c_str());

    w.word();
    if (line > 0) place = {number, line, 0, 0};     /* 0: as before */
    if (!w.take(',')) return;
    w.word();
    w.word();
    if (w.take('+')) w.word();
    w.need(',');
    if (w.word() != "inlined_at") bad("inlined_at", w.p);
    place.at_file = atoi(w.word().c_str());
    place.at_line = atoi(w.word().c_str());
    w.word();
}

void ptx_reader::directive(const string &t)
{
    if (t == ".reg") registers();
    else if (t == ".shared" || t == ".local" || t == ".param") room(t);
    else if (t == ".loc") loc();
    else if (t == ".pragma") w.past(';');
    else bad("directive " + t, w.p);
}

static int64_t number(const string &t)
{
    if (t.size() > 2 && t[0] == '0' && (t[1] == 'f' || t[1] == 'F' ||
                                        t[1] == 'd' || t[1] == 'D'))
        return static_cast<int64_t>(strtoull(t.c_str() + 2, nullptr, 16));
    if (t[0] == '-') return strtoll(t.c_str(), nullptr, 0);
    return static_cast<int64_t>(strtoull(t.c_str(), nullptr, 0));
}

static int special(const string &name)
{
    static const char *const names[SPECIALS] = {
        "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z",
        "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y",
        "%nctaid.z", "%laneid", "%warpid"
    };

    for (int i = 0; i < SPECIALS; i++)
        if (name == names[i]) return i;
    return -1;
}

ptx_operand ptx_reader::named(const string &name)
{
    ptx_operand o;
    const symbol *s = find(name);

    if (s != nullptr) {
        o.kind = s->kind == symbol::VALUE ? ptx_operand::IMM
                                          : ptx_operand::REG;
        if (s->kind == symbol::VALUE) o.imm = s->value;
        else o.reg = static_cast<int>(s->value);
    } else if (special(name) >= 0) {
        o.kind = ptx_operand::REG;
        o.reg = special(name);
    } else if (name == "dynamic_shared") {
        o.kind = ptx_operand::IMM;
        o.imm = static_cast<int64_t>((f.static_shared + 127) / 128 * 128);
    } else if (source.global_.count(name) > 0) {
        o.kind = ptx_operand::IMM;
        o.imm = static_cast<int64_t>(reinterpret_cast<uintptr_t>(
            source.global_[name].data()));
    } else if (name[0] == '$') {
        o.kind = ptx_operand::LABEL;
        o.imm = label_of(name);
    } else {
        bad("unknown name " + name, w.p);
    }
    return o;
}

/* [base], [base+offset], [name+offset] */
ptx_operand ptx_reader::memory()
{
    ptx_operand o, base;

    o.kind = ptx_operand::MEM;
    string t = w.word();
    if (isdigit(static_cast<unsigned char>(t[0]))) o.imm = number(t);
    else base = named(t);
    if (base.kind == ptx_operand::REG) o.reg = base.reg;
    else if (base.kind == ptx_operand::IMM) o.imm = base.imm;
    if (w.take('+')) o.imm += number(w.word());
    w.need(']');
    return o;
}

ptx_operand ptx_reader::operand()
{
    ptx_operand o;

    if (w.take('[')) return memory();
    if (w.peek() == '{' || w.peek() == '(') {
        char close = *w.p++ == '{' ? '}' : ')';
        o.kind = ptx_operand::LIST;
        while (!w.take(close)) {
            o.list.push_back(operand());
            w.take(',');
        }
        return o;
    }
    string t = w.word();
    if (t == "_") {
        o.kind = ptx_operand::SINK;
    } else if (isdigit(static_cast<unsigned char>(t[0])) || t[0] == '-') {
        o.kind = ptx_operand::IMM;
        o.imm = number(t);
    } else {
        o = named(t);
    }
    if (!w.take('|')) return o;
    ptx_operand both;
    both.kind = ptx_operand::LIST;
    both.list.push_back(o);
    both.list.push_back(operand());
    return both;
}

/* A parameter of a call is a register: ld.param and st.param are moves. */
static void through_register(ptx_statement &s)
{
    bool load = s.form.compare(0, 9, "ld.param.") == 0;

    s.form = string("mov.b") + s.form.substr(s.form.size() - 2);
    ptx_operand &m = s.o[load ? 1 : 0];
    m.kind = ptx_operand::REG;
}

void ptx_reader::statement()
{
    ptx_statement s;

    if (w.take('@')) {
        s.negate = w.take('!');
        s.guard = named(w.word()).reg;
    }
    s.form = w.word();
    if (s.form.compare(0, 4, "call") == 0) return call(s);
    while (!w.take(';')) {
        s.o.push_back(operand());
        w.take(',');
    }
    s.place = place;
    if (s.form.compare(2, 7, ".param.") == 0)
        for (const ptx_operand &m : s.o)
            if (m.kind == ptx_operand::MEM && call_param.count(m.reg) > 0) {
                through_register(s);
                break;
            }
    if (s.form == "ret" && !labels_of.empty()) {
        s.form = "bra";
        s.o.resize(1);
        s.o[0].kind = ptx_operand::LABEL;
        s.o[0].imm = label_of("return");
    }
    f.body.push_back(s);
}

/* The called function's statements take the call's place. */
void ptx_reader::call(ptx_statement s)
{
    std::vector<ptx_operand> arg;
    string name, outer_labels = labels_of;
    words after;

    if (s.guard >= 0) bad("a call under a predicate", w.p);
    if (w.peek() == '(') {
        ptx_operand back = operand();
        arg = back.list;
        w.take(',');
    }
    name = w.word();
    if (w.take(',')) {
        ptx_operand in = operand();
        arg.insert(arg.end(), in.list.begin(), in.list.end());
    }
    w.need(';');
    auto at = source.func_.find(name);
    if (at == source.func_.end()) bad("no function " + name, w.p);
    after = w;
    labels_of = std::to_string(++calls) + ":";
    w.p = at->second;
    scope.emplace_back();
    func_params(arg);
    body();
    scope.pop_back();
    f.label[static_cast<size_t>(label_of("return"))] = f.body.size();
    labels_of = outer_labels;
    w = after;
}

void ptx_reader::func_params(const std::vector<ptx_operand> &arg)
{
    size_t n = 0;

    for (int part = 0; part < 2; part++) {
        if (w.take('(')) {
            while (!w.take(')')) {
                variable v = read_variable(w);
                if (n >= arg.size()) bad("too few arguments", w.p);
                declare(v.name, symbol::PARAM_REG, arg[n++].reg);
                w.take(',');
            }
        }
        if (part == 0) w.word();    /* the function's name */
    }
    while (w.peek() == '.') w.word();   /* .noreturn and its like */
}

void ptx_reader::entry_params()
{
    if (!w.take('(')) return;
    while (!w.take(')')) {
        variable v = read_variable(w);
        size_t at = (f.param_bytes + v.align - 1) / v.align * v.align;

        declare(v.name, symbol::VALUE, static_cast<int64_t>(at));
        f.param.push_back({at, v.bytes});
        f.param_bytes = at + v.bytes;
        w.take(',');
    }
    while (w.peek() == '.') {
        string t = w.word();
        u32 n = 1;

        do n *= static_cast<u32>(atoi(w.word().c_str())); while (w.take(','));
        if (t == ".maxntid" || t == ".reqntid") f.max_threads = n;
    }
}

void ptx_reader::body()
{
    size_t outer = scope.size();

    w.need('{');
    scope.emplace_back();
    while (scope.size() > outer) {
        char c = w.peek();

        if (c == '{') {
            w.p++;
            scope.emplace_back();
        } else if (c == '}') {
            w.p++;
            scope.pop_back();
        } else if (c == '.') {
            directive(w.word());
        } else if (c == '@') {
            statement();
        } else if (c == '\0') {
            bad("the text ends in a function", w.p);
        } else {
            const char *from = w.p;
            string t = w.word();
            if (t.back() == ':') {
                t.pop_back();
                f.label[static_cast<size_t>(label_of(t))] = f.body.size();
                continue;
            }
            w.p = from;
            statement();
        }
    }
}

ptx_function ptx_source::read(const string &entry)
{
    ptx_reader r(*this);
    auto at = entry_.find(entry);

    if (at == entry_.end()) bad("no entry " + entry, "");
    r.f.name = entry;
    r.f.file = file_;
    for (int i = 0; i < SPECIALS; i++) r.new_register(WIDTH_4);
    r.w.p = at->second;
    r.scope.emplace_back();
    r.entry_params();
    r.body();
    for (size_t i = 0; i < r.f.label.size(); i++)
        if (r.f.label[i] == SIZE_MAX) bad("a label is missing", entry.c_str());
    /* a last statement for labels at the end */
    ptx_statement s;
    s.form = "ret";
    r.f.body.push_back(s);
    return r.f;
}
