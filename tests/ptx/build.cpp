/*
** build.cpp - from statements to what run.cpp executes: an operation, and its
** operands' places in a warp's registers.
*/
#include "flow.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "forms.h"

typedef std::string string;

[[noreturn]] static void bad(const ptx_function &f, const ptx_statement &s,
                             const char *what)
{
    fprintf(stderr, "ptx: %s: %s: %s\n", f.name.c_str(), s.form.c_str(), what);
    abort();
}

static bool begins(const string &s, const char *with)
{
    return s.compare(0, strlen(with), with) == 0;
}

static bool has(const string &s, const char *part)
{
    return s.find(part) != string::npos;
}

/* ---- instructions ------------------------------------------------------- */

struct form { int op; const char *widths; };    /* of result, then operands */

template <typename T> constexpr char width_letter()
{
    return sizeof(T) == 8 ? '8' : '4';
}
typedef int16_t s16;
typedef uint16_t u16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;

static std::unordered_map<string, form> make_forms()
{
#define FORM1(name, text, D, A, e)                                           \
    {                                                                        \
        static const char w[] = {width_letter<D>(), width_letter<A>(), 0};   \
        m[text] = {LANE_##name, w};                                          \
    }
#define FORM2(name, text, D, A, B, e)                                        \
    {                                                                        \
        static const char w[] = {width_letter<D>(), width_letter<A>(),       \
                                 width_letter<B>(), 0};                      \
        m[text] = {LANE_##name, w};                                          \
    }
#define FORM3(name, text, D, A, B, C, e)                                     \
    {                                                                        \
        static const char w[] = {width_letter<D>(), width_letter<A>(),       \
                                 width_letter<B>(), width_letter<C>(), 0};   \
        m[text] = {LANE_##name, w};                                          \
    }
#define FORM_SET(name, text, T, e) \
    m[text] = {LANE_SET_##name, sizeof(T) == 8 ? "p88" : "p44"};
#define FORM_PRED(name, text, e) m[text] = {LANE_##name, "ppp"};
#define FORM_SELECT(name, text, T) \
    m[text] = {LANE_##name, sizeof(T) == 8 ? "888p" : "444p"};
    std::unordered_map<string, form> m;

    PTX_LANE1(FORM1) PTX_LANE2(FORM2) PTX_LANE3(FORM3) PTX_SETP(FORM_SET)
    PTX_PREDICATE(FORM_PRED) PTX_SELECT(FORM_SELECT)
    m["bfi.b32"] = {LANE_BFI_32, "44444"};
    m["bfi.b64"] = {LANE_BFI_64, "88844"};
    m["lop3.b32"] = {LANE_LOP3, "44444"};
    return m;
}

/* Other names of forms: NEW OLD. */
static const char *const aliases[][2] = {
    {"mov.u32", "mov.b32"}, {"mov.s32", "mov.b32"}, {"mov.f32", "mov.b32"},
    {"mov.u16", "mov.b32"}, {"mov.b16", "mov.b32"}, {"mov.u64", "mov.b64"},
    {"mov.s64", "mov.b64"}, {"mov.f64", "mov.b64"}, {"add.u32", "add.s32"},
    {"add.u64", "add.s64"}, {"sub.u32", "sub.s32"}, {"sub.u64", "sub.s64"},
    {"mul.lo.u32", "mul.lo.s32"}, {"mul.lo.u64", "mul.lo.s64"},
    {"mad.lo.u32", "mad.lo.s32"}, {"mad.lo.u64", "mad.lo.s64"},
    {"setp.eq.b32", "setp.eq.u32"}, {"setp.ne.b32", "setp.ne.u32"},
    {"setp.eq.b64", "setp.eq.u64"}, {"setp.ne.b64", "setp.ne.u64"},
    {"setp.eq.b16", "setp.eq.u16"}, {"setp.ne.b16", "setp.ne.u16"},
    {"selp.u32", "selp.b32"}, {"selp.s32", "selp.b32"},
    {"selp.f32", "selp.b32"}, {"selp.u16", "selp.b32"},
    {"selp.b16", "selp.b32"}, {"selp.u64", "selp.b64"},
    {"selp.s64", "selp.b64"}, {"selp.f64", "selp.b64"},
    {"add.rn.f32", "add.f32"}, {"sub.rn.f32", "sub.f32"},
    {"mul.rn.f32", "mul.f32"}, {"add.rn.f64", "add.f64"},
    {"sub.rn.f64", "sub.f64"}, {"mul.rn.f64", "mul.f64"},
    {"shr.b32", "shr.u32"}, {"shr.b64", "shr.u64"},
    {"rcp.approx.ftz.f64", "rcp.rn.f64"},
    {"rcp.approx.ftz.f32", "rcp.rn.f32"}, {"rcp.approx.f32", "rcp.rn.f32"},
    {"div.approx.f32", "div.rn.f32"}, {"div.full.f32", "div.rn.f32"},
    {"div.approx.ftz.f32", "div.rn.f32"},
    {"rsqrt.approx.ftz.f32", "rsqrt.approx.f32"},
    {"sqrt.approx.f32", "sqrt.rn.f32"}, {"ex2.approx.f32",
                                         "ex2.approx.ftz.f32"},
    {"lg2.approx.f32", "lg2.approx.ftz.f32"},
    {"cvt.u64.s32", "cvt.s64.s32"}, {"cvt.s64.u32", "cvt.u64.u32"},
    {"cvt.s32.s64", "cvt.u32.u64"}, {"cvt.u32.s64", "cvt.u32.u64"},
    {"cvt.s32.u64", "cvt.u32.u64"}, {"cvt.u16.u32", "mov.b32"},
    {"cvt.s16.s32", "mov.b32"}, {"cvt.u16.s32", "mov.b32"},
    {"cvt.u16.u64", "cvt.u32.u64"}, {"cvt.s16.s8", "cvt.s32.s8"},
    {"cvt.u16.u8", "cvt.u32.u8"}, {"cvt.s32.u16", "cvt.u32.u16"},
    {"and.b16", "and.b32"}, {"or.b16", "or.b32"}, {"xor.b16", "xor.b32"},
    {"cvta.to.global.u64", "mov.b64"}, {"cvta.global.u64", "mov.b64"},
    {"cvta.local.u64", "mov.b64"}, {"cvta.to.local.u64", "mov.b64"},
    {"exit", "ret"}, {"bra.uni", "bra"},
    {"barrier.sync.aligned", "bar.sync"}, {"barrier.sync", "bar.sync"},
};

struct builder {
    ptx_code &c;
    const ptx_function &f;
    const std::vector<u32> &room;
    size_t rooms4, rooms8;
    const std::vector<u32> &meet;
    std::map<u64, u32> constant4, constant8;
    std::map<int, u32> special;
    size_t where;               /* statement */
    ptx_ins i;

    builder(ptx_code &code, const ptx_flow &flow)
        : c(code), f(code.f), room(flow.room), rooms4(flow.rooms4),
          rooms8(flow.rooms8), meet(flow.meet) {}

    const ptx_statement &s() const { return f.body[where]; }
    [[noreturn]] void fail(const char *what) const { bad(f, s(), what); }

    /* Rooms for constants and special registers come behind those for the
    ** others, so offsets of 64-bit rooms are known at the end alone: they
    ** carry a mark until then. */
    static const u32 wide = u32{1} << 31;
    u32 place4(size_t n) const { return static_cast<u32>(n * 128); }
    u32 place8(size_t n) const { return static_cast<u32>(n * 256) | wide; }

    u32 constant(int64_t v, int width)
    {
        u64 key = width == 8 ? static_cast<u64>(v) : static_cast<u32>(v);
        auto &known = width == 8 ? constant8 : constant4;
        auto at = known.find(key);

        if (at != known.end()) return at->second;
        return known[key] = width == 8 ? place8(rooms8++) : place4(rooms4++);
    }
    u32 operand(const ptx_operand &o, char width)
    {
        int bytes = width == '8' ? 8 : width == '4' ? 4 : 0;

        if (o.kind == ptx_operand::SINK && width != 'p')
            return width == '8' ? place8(rooms8++) : place4(rooms4++);
        if (o.kind == ptx_operand::IMM && bytes > 0)
            return constant(o.imm, bytes);
        if (o.kind != ptx_operand::REG) fail("operand");
        if (o.reg < SPECIALS) {
            if (bytes != 4) fail("a special register of another width");
            auto at = special.find(o.reg);
            if (at == special.end())
                at = special.insert({o.reg, place4(rooms4++)}).first;
            return at->second;
        }
        size_t r = static_cast<size_t>(o.reg);
        if (f.reg[r] != bytes) fail("a register of another width");
        if (bytes == 0) return room[r];
        return bytes == 8 ? place8(room[r]) : place4(room[r]);
    }
    const ptx_operand &at(size_t n) const
    {
        if (n >= s().o.size()) fail("too few operands");
        return s().o[n];
    }

    void lanes(const form &x);
    bool control(const string &name);
    void shuffle(const string &name);
    void vote(const string &name);
    void access(const string &name);
    void matrix(const string &name);
    void multiply();
    void async(const string &name);
    void pack();
    void memory(const ptx_operand &m);
    void encode(const std::unordered_map<string, form> &forms);
    void finish();
    void image();
    void list(const ptx_operand &o, char width);
};

void builder::list(const ptx_operand &o, char width)
{
    c.list.push_back(operand(o, width));
}

void builder::lanes(const form &x)
{
    u32 *const to[] = {&i.d, &i.a, &i.b, &i.c};
    size_t n = s().o.size();

    i.op = static_cast<uint16_t>(x.op);
    if (x.op == LANE_MOV_PRED && at(1).kind == ptx_operand::IMM) {
        i.d = operand(at(0), 'p');
        i.n = 1;                /* of a constant */
        i.imm = at(1).imm != 0;
        return;
    }
    if (x.widths[0] != 'p' || x.widths[1] != 'p')
        if (n != strlen(x.widths)) fail("number of operands");
    for (size_t k = 0; k < 4 && k < n; k++)
        *to[k] = operand(at(k), x.widths[k]);
    if (n < 5) return;
    if (x.op == LANE_LOP3) i.imm = at(4).imm;
    else i.imm = operand(at(4), x.widths[4]);
}

/* i.a: the base's place or ~0, i.imm: the offset */
void builder::memory(const ptx_operand &m)
{
    i.a = ~u32{0};
    i.imm = m.imm;
    if (m.kind != ptx_operand::MEM) fail("not an address");
    if (m.reg < 0) return;
    ptx_operand base;
    base.kind = ptx_operand::REG;
    base.reg = m.reg;
    i.n = f.reg[static_cast<size_t>(m.reg)] == WIDTH_8 ? 8 : 4;
    i.a = operand(base, i.n == 8 ? '8' : '4');
}

static ptx_space space_of(const string &form)
{
    return has(form, ".global") || has(form, ".const") ? SPACE_GLOBAL
         : has(form, ".shared") ? SPACE_SHARED
         : has(form, ".local") ? SPACE_LOCAL
         : has(form, ".param") ? SPACE_PARAM : SPACE_GENERIC;
}

/* ld and st: registers in c.list from i.more on, i.d of them; i.n: width of
** the address; i.b: 8 where registers have 64 bits */
void builder::access(const string &name)
{
    bool load = name[0] == 'l';
    const ptx_operand &data = at(load ? 0 : 1);
    string type = name.substr(name.rfind('.') + 1);

    if (has(name, ".volatile") || has(name, ".relaxed") || has(name, ".acq"))
        fail("ordered accesses are not known");
    i.bytes = static_cast<uint8_t>(atoi(type.c_str() + 1) / 8);
    i.space = static_cast<uint8_t>(space_of(name));
    i.op = load ? (type[0] == 's' && i.bytes < 8 ? OP_LD_SIGNED : OP_LD)
                : OP_ST;
    memory(at(load ? 1 : 0));
    const ptx_operand &first =
        data.kind == ptx_operand::LIST ? data.list[0] : data;
    bool wide = i.bytes == 8;
    if (first.kind == ptx_operand::REG)
        wide = f.reg[static_cast<size_t>(first.reg)] == WIDTH_8;
    i.b = wide ? 8 : 4;
    i.more = static_cast<u32>(c.list.size());
    if (data.kind == ptx_operand::LIST)
        for (const ptx_operand &o : data.list) list(o, wide ? '8' : '4');
    else list(data, wide ? '8' : '4');
    i.d = static_cast<u32>(c.list.size()) - i.more;
}

/* i.d registers; i.b: transposed */
void builder::matrix(const string &name)
{
    i.op = OP_LDMATRIX;
    i.bytes = 16;
    i.space = SPACE_SHARED;
    i.b = has(name, ".trans");
    memory(at(1));
    i.more = static_cast<u32>(c.list.size());
    const ptx_operand &to = at(0);
    if (to.kind == ptx_operand::LIST)
        for (const ptx_operand &o : to.list) list(o, '4');
    else list(to, '4');
    i.d = static_cast<u32>(c.list.size()) - i.more;
}

void builder::multiply()
{
    i.op = OP_MMA;
    i.more = static_cast<u32>(c.list.size());
    for (size_t k = 0; k < 4; k++)
        for (const ptx_operand &o : at(k).list) list(o, '4');
    if (c.list.size() - i.more != 14) fail("number of registers");
}

/* i.b, i.c, i.more: where in shared memory: place, its width, offset; i.bytes;
** i.d: place of the number of bytes that are read, ~0: all */
void builder::async(const string &name)
{
    if (has(name, "commit")) {
        i.op = OP_ASYNC_COMMIT;
        return;
    }
    if (has(name, "wait")) {
        i.op = OP_ASYNC_WAIT;
        i.imm = has(name, "wait_all") ? 0 : at(0).imm;
        i.n = has(name, "wait_all");
        return;
    }
    if (!has(name, ".shared") || !has(name, ".global") ||
        has(name, ".bulk") || has(name, "mbarrier"))
        fail("this cp.async is not known");
    i.op = OP_ASYNC;
    memory(at(0));
    i.b = i.a;
    i.c = i.n;
    i.more = static_cast<u32>(i.imm);
    memory(at(1));
    i.bytes = static_cast<uint8_t>(at(2).imm);
    i.d = s().o.size() > 3 ? operand(at(3), '4') : ~u32{0};
}

void builder::shuffle(const string &name)
{
    const ptx_operand &to = at(0);

    i.op = has(name, ".up") ? OP_SHFL_UP : has(name, ".down") ? OP_SHFL_DOWN
         : has(name, ".bfly") ? OP_SHFL_BFLY : OP_SHFL_IDX;
    i.imm = -1;
    if (to.kind == ptx_operand::LIST) {
        i.d = operand(to.list[0], '4');
        if (to.list[1].kind == ptx_operand::REG)
            i.imm = operand(to.list[1], 'p');
    } else {
        i.d = operand(to, '4');
    }
    i.a = operand(at(1), '4');
    i.b = operand(at(2), '4');
    i.c = operand(at(3), '4');
    i.more = operand(at(4), '4');
}

/* i.a: a predicate, i.negate of the guard apart; i.b: the mask of members */
void builder::vote(const string &name)
{
    i.op = has(name, ".any") ? OP_VOTE_ANY : has(name, ".all") ? OP_VOTE_ALL
                                                               : OP_BALLOT;
    if (has(name, ".uni")) fail("not known");
    i.d = operand(at(0), i.op == OP_BALLOT ? '4' : 'p');
    i.a = operand(at(1), 'p');
    i.b = operand(at(2), '4');
}

/* mov.b64 d, {a, b} and mov.b64 {d, c}, a, with halves of i.bytes */
void builder::pack()
{
    bool wide = has(s().form, "64");

    i.bytes = wide ? 4 : 2;
    if (at(0).kind == ptx_operand::LIST) {
        if (at(0).list.size() != 2) fail("not two halves");
        i.op = OP_UNPACK;
        i.d = operand(at(0).list[0], '4');
        i.c = operand(at(0).list[1], '4');
        i.a = operand(at(1), wide ? '8' : '4');
    } else {
        if (at(1).list.size() != 2) fail("not two halves");
        i.op = OP_PACK;
        i.d = operand(at(0), wide ? '8' : '4');
        i.a = operand(at(1).list[0], '4');
        i.b = operand(at(1).list[1], '4');
    }
}

bool builder::control(const string &name)
{
    if (name == "bra") {
        i.op = OP_BRA;
        i.a = meet[where];
        i.imm = static_cast<int64_t>(f.label[static_cast<size_t>(at(0).imm)]);
    } else if (name == "ret") {
        i.op = OP_RET;
    } else if (name == "bar.sync") {
        if (s().o.size() != 1 || at(0).kind != ptx_operand::IMM)
            fail("barriers of part of a block are not known");
        i.op = OP_BAR;
    } else if (name == "bar.warp.sync") {
        i.op = OP_WARP_BAR;
        i.a = operand(at(0), '4');
    } else if (name == "activemask.b32") {
        i.op = OP_ACTIVE;
        i.d = operand(at(0), '4');
    } else if (begins(name, "shfl.sync")) {
        shuffle(name);
    } else if (begins(name, "vote.sync")) {
        vote(name);
    } else if (begins(name, "ld.") || begins(name, "st.")) {
        access(name);
    } else if (begins(name, "ldmatrix.sync.aligned.m8n8")) {
        matrix(name);
    } else if (name ==
               "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") {
        multiply();
    } else if (begins(name, "cp.async")) {
        async(name);
    } else if (begins(name, "mov.b") && s().o.size() == 2 &&
               (at(0).kind == ptx_operand::LIST ||
                at(1).kind == ptx_operand::LIST)) {
        pack();
    } else if (begins(name, "membar") || begins(name, "fence") ||
               begins(name, "prefetch")) {
        i.op = OP_NOTHING;
    } else {
        return false;
    }
    return true;
}

void builder::encode(const std::unordered_map<string, form> &forms)
{
    string name = s().form;

    for (const auto &x : aliases)
        if (name == x[0]) name = x[1];
    /* a conversion may take the lower half of a wider register */
    if ((name == "cvt.s64.s32" || name == "cvt.u64.u32") &&
        at(1).kind == ptx_operand::REG &&
        f.reg[static_cast<size_t>(at(1).reg)] == WIDTH_8)
        name += " of 64 bits";
    i = {};
    i.guard = -1;
    i.statement = static_cast<u32>(where);
    if (s().guard >= 0) {
        ptx_operand g;
        g.kind = ptx_operand::REG;
        g.reg = s().guard;
        i.guard = static_cast<int16_t>(operand(g, 'p'));
        i.negate = s().negate;
    }
    if (!control(name)) {
        auto x = forms.find(name);

        if (x == forms.end()) fail("the interpreter does not know this form");
        lanes(x->second);
    }
    c.ins.push_back(i);
}

/* 64-bit rooms begin behind those of 32 bits. */
void builder::finish()
{
    u32 from = static_cast<u32>(rooms4 * 128);
    auto settle = [&](u32 &x) {
        if (x != ~u32{0} && (x & wide)) x = (x & ~wide) + from;
    };

    for (ptx_ins &x : c.ins) {
        bool offsets = x.op == OP_LD || x.op == OP_LD_SIGNED ||
                       x.op == OP_ST || x.op == OP_LDMATRIX;

        settle(x.a);
        settle(x.b);
        settle(x.c);
        if (!offsets) settle(x.d);
        if (x.op == LANE_BFI_32 || x.op == LANE_BFI_64) {
            u32 n = static_cast<u32>(x.imm);
            settle(n);
            x.imm = n;
        }
    }
    for (u32 &x : c.list) settle(x);
    for (auto &x : constant8) settle(x.second);
    c.file_bytes = rooms4 * 128 + rooms8 * 256;
}

void builder::image()
{
    c.image.assign(c.file_bytes, 0);
    for (const auto &x : constant4) {
        u32 v = static_cast<u32>(x.first);
        for (size_t l = 0; l < 32; l++)
            memcpy(&c.image[x.second + 4 * l], &v, 4);
    }
    for (const auto &x : constant8)
        for (size_t l = 0; l < 32; l++)
            memcpy(&c.image[x.second + 8 * l], &x.first, 8);
    for (int k = 0; k < SPECIALS; k++)
        c.special[k] = special.count(k) > 0 ? special[k] : ~u32{0};
}

/* Shared accesses of a kernel are kept by its smallest one: bytes, pairs or
** words. */
static int smallest_shared(const ptx_code &c)
{
    int shift = 2;

    for (const ptx_ins &i : c.ins)
        if ((i.space == SPACE_SHARED || i.space == SPACE_GENERIC) &&
            (i.op == OP_LD || i.op == OP_LD_SIGNED || i.op == OP_ST))
            while (shift > 0 && i.bytes < 1 << shift) shift--;
    return shift;
}

std::unique_ptr<ptx_code> ptx_build(ptx_function f)
{
    static const std::unordered_map<string, form> forms = make_forms();
    std::unique_ptr<ptx_code> c(new ptx_code());

    c->f = std::move(f);
    c->count = {};
    ptx_flow flow = ptx_flow_of(c->f);
    c->preds = flow.preds;
    builder made(*c, flow);
    for (size_t i = 0; i < c->f.body.size(); i++) {
        made.where = i;
        made.encode(forms);
    }
    made.finish();
    made.image();
    c->shared_shift = smallest_shared(*c);
    return c;
}
