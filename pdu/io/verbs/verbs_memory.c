/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs_memory.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { STEPS_MAX = 6 }; /* that a call takes where it is slow */

struct shared { /* the fabric, for one thread at a time */
        pthread_mutex_t lock;
        struct memory_fabric *fabric;
        uint32_t random; /* slow; 0: at once */
};

struct bell { /* of a context */
        int fd;
        bool up;
};

/* --- taking turns ------------------------------------------------------------------------------ */

static struct shared *enter(const void *object)
{
        struct shared *s = memory_fabric_user(memory_fabric_of(object));

        pthread_mutex_lock(&s->lock);
        return s;
}

static void leave(struct shared *s)
{
        pthread_mutex_unlock(&s->lock);
}

static uint32_t next_random(void *user)
{
        struct shared *s = user;

        s->random ^= s->random << 13;
        s->random ^= s->random >> 17;
        s->random ^= s->random << 5;
        return s->random;
}

static void work(struct shared *s)
{
        if (s->random == 0)
                memory_idle(s->fabric);
        else
                for (uint32_t n = next_random(s) % (STEPS_MAX + 1); n > 0; n--)
                        memory_step(s->fabric);
}

/* Whatever has become possible is done at once, but where it is slow. */
static void leave_done(struct shared *s)
{
        int why = errno;

        work(s);
        leave(s);
        errno = why;
}

static int left(struct shared *s, int ret)
{
        leave_done(s);
        return ret;
}

/* --- contexts ---------------------------------------------------------------------------------- */

static void changed(void *user, struct verbs_context *c)
{
        struct bell *b = memory_context_own(c);
        bool up = memory_readable(c);
        eventfd_t count;

        (void)user;
        if (!b || b->up == up)
                return;
        b->up = up;
        if (up)
                eventfd_write(b->fd, 1);
        else
                eventfd_read(b->fd, &count);
}

static struct bell *bell_new(void)
{
        struct bell *b = calloc(1, sizeof(*b));

        if (!b)
                return NULL;
        b->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (b->fd >= 0)
                return b;
        free(b);
        return NULL;
}

static void bell_free(struct bell *b)
{
        close(b->fd);
        free(b);
}

static struct shared *shared_of(struct verbs_provider *p)
{
        return memory_fabric_user((struct memory_fabric *)(void *)p);
}

static struct verbs_context *open_context(struct verbs_provider *p)
{
        struct shared *s = shared_of(p);
        struct bell *b = bell_new();
        struct verbs_context *c;

        if (!b)
                return NULL;
        pthread_mutex_lock(&s->lock);
        c = memory_ops.open(p);
        if (c)
                memory_context_set_own(c, b);
        leave(s);
        if (!c)
                bell_free(b);
        return c;
}

static void close_context(struct verbs_context *c)
{
        struct shared *s = enter(c);
        struct bell *b = memory_context_own(c);

        memory_ops.close(c);
        memory_context_set_own(c, NULL);
        leave_done(s);
        bell_free(b);
}

static int fds(struct verbs_context *c, int *fd, int max)
{
        const struct bell *b = memory_context_own(c);

        if (max < 1)
                return 0;
        fd[0] = b->fd;
        return 1;
}

static bool event(struct verbs_context *c, struct verbs_event *e)
{
        struct shared *s = enter(c);
        bool any = memory_ops.event(c, e);

        leave_done(s);
        return any;
}

static int arm(struct verbs_context *c)
{
        struct shared *s = enter(c);
        int ret = memory_ops.arm(c);

        leave(s);
        return ret;
}

/* --- connections ------------------------------------------------------------------------------- */

static struct verbs_listener *listen_on(struct verbs_context *c, const char *traddr,
                                        const char *trsvcid, int backlog)
{
        struct shared *s = enter(c);
        struct verbs_listener *l = memory_ops.listen(c, traddr, trsvcid, backlog);

        leave(s);
        return l;
}

static void unlisten(struct verbs_listener *l)
{
        struct shared *s = enter(l);

        memory_ops.unlisten(l);
        leave_done(s);
}

static struct verbs_ep *resolve(struct verbs_context *c, const char *traddr, const char *trsvcid,
                                unsigned timeout_ms)
{
        struct shared *s = enter(c);
        struct verbs_ep *ep = memory_ops.resolve(c, traddr, trsvcid, timeout_ms);

        leave_done(s);
        return ep;
}

static int migrate(struct verbs_ep *ep, struct verbs_context *to)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.migrate(ep, to));
}

static struct verbs_domain *domain(struct verbs_ep *ep)
{
        struct shared *s = enter(ep);
        struct verbs_domain *d = memory_ops.domain(ep);

        leave(s);
        return d;
}

static int qp(struct verbs_ep *ep, const struct verbs_qp_attr *attr)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.qp(ep, attr));
}

static int connect_to(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.connect(ep, param));
}

static int accept_it(struct verbs_ep *ep, const struct verbs_conn_param *param)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.accept(ep, param));
}

static int reject(struct verbs_ep *ep, const void *data, uint8_t len)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.reject(ep, data, len));
}

static struct verbs_ep *local(struct verbs_context *c, const char *traddr)
{
        struct shared *s = enter(c);
        struct verbs_ep *ep = memory_ops.local(c, traddr);

        leave_done(s);
        return ep;
}

static int numbers(const struct verbs_ep *ep, struct verbs_numbers *own)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.numbers(ep, own));
}

static int join(struct verbs_ep *ep, const struct verbs_numbers *peer,
                const struct verbs_conn_param *param)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.join_peer(ep, peer, param));
}

static int disconnect(struct verbs_ep *ep)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.disconnect(ep));
}

static int fail(struct verbs_ep *ep)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.fail(ep));
}

static void destroy(struct verbs_ep *ep)
{
        struct shared *s = enter(ep);

        memory_ops.destroy(ep);
        leave_done(s);
}

static void set_user(struct verbs_ep *ep, void *user)
{
        struct shared *s = enter(ep);

        memory_ops.set_user(ep, user);
        leave(s);
}

static void *user_of(const struct verbs_ep *ep)
{
        struct shared *s = enter(ep);
        void *user = memory_ops.user(ep);

        leave(s);
        return user;
}

static void addresses(const struct verbs_ep *ep, char *local, char *peer, size_t size)
{
        struct shared *s = enter(ep);

        memory_ops.addresses(ep, local, peer, size);
        leave(s);
}

static uint16_t listener_port(const struct verbs_listener *l)
{
        struct shared *s = enter(l);
        uint16_t port = memory_ops.listener_port(l);

        leave(s);
        return port;
}

/* --- memory and work --------------------------------------------------------------------------- */

static const struct verbs_caps *caps(const struct verbs_domain *d)
{
        struct shared *s = enter(d);
        const struct verbs_caps *of = memory_ops.caps(d);

        leave(s);
        return of;
}

static int make_srq(struct verbs_domain *d, uint32_t wrs)
{
        struct shared *s = enter(d);

        return left(s, memory_ops.make_srq(d, wrs));
}

static int grow_cq(struct verbs_domain *d, uint32_t cqes)
{
        struct shared *s = enter(d);

        return left(s, memory_ops.grow_cq(d, cqes));
}

static int reg(struct verbs_domain *d, void *addr, size_t len, unsigned access, struct verbs_mr *mr)
{
        struct shared *s = enter(d);

        return left(s, memory_ops.reg(d, addr, len, access, mr));
}

static void dereg(struct verbs_domain *d, struct verbs_mr *mr)
{
        struct shared *s = enter(d);

        memory_ops.dereg(d, mr);
        leave(s);
}

static int make_window(struct verbs_domain *d, struct verbs_window *w)
{
        struct shared *s = enter(d);

        return left(s, memory_ops.make_window(d, w));
}

static void drop_window(struct verbs_domain *d, struct verbs_window *w)
{
        struct shared *s = enter(d);

        memory_ops.drop_window(d, w);
        leave(s);
}

static int post(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.post(ep, chain, bad));
}

static int post_recv(struct verbs_ep *ep, struct verbs_wr *chain, struct verbs_wr **bad)
{
        struct shared *s = enter(ep);

        return left(s, memory_ops.post_recv(ep, chain, bad));
}

static int post_srq(struct verbs_domain *d, struct verbs_wr *chain, struct verbs_wr **bad)
{
        struct shared *s = enter(d);

        return left(s, memory_ops.post_srq(d, chain, bad));
}

static int poll_cq(struct verbs_domain *d, struct verbs_wc *wc, int max)
{
        struct shared *s = enter(d);
        int n = memory_ops.poll(d, wc, max);

        if (s->random)
                work(s);
        leave(s);
        return n;
}

static const struct verbs shared_ops = {
        .open = open_context,
        .close = close_context,
        .fds = fds,
        .event = event,
        .listen = listen_on,
        .listener_port = listener_port,
        .unlisten = unlisten,
        .resolve = resolve,
        .migrate = migrate,
        .domain = domain,
        .qp = qp,
        .connect = connect_to,
        .accept = accept_it,
        .reject = reject,
        .local = local,
        .numbers = numbers,
        .join_peer = join,
        .disconnect = disconnect,
        .fail = fail,
        .destroy = destroy,
        .set_user = set_user,
        .user = user_of,
        .addresses = addresses,
        .caps = caps,
        .make_srq = make_srq,
        .grow_cq = grow_cq,
        .reg = reg,
        .dereg = dereg,
        .make_window = make_window,
        .drop_window = drop_window,
        .post = post,
        .post_recv = post_recv,
        .post_srq = post_srq,
        .poll = poll_cq,
        .arm = arm,
};

/* --- the provider ------------------------------------------------------------------------------ */

static struct verbs_provider *provider_new(const struct memory_caps *with, uint32_t seed)
{
        struct shared *s = calloc(1, sizeof(*s));
        struct memory_config cfg = { .caps = with,
                                     .random = seed ? next_random : NULL,
                                     .changed = changed,
                                     .user = s,
                                     .ops = &shared_ops };

        if (!s)
                return NULL;
        s->random = seed;
        s->fabric = memory_fabric_new(&cfg);
        if (!s->fabric) {
                free(s);
                return NULL;
        }
        pthread_mutex_init(&s->lock, NULL);
        return memory_provider(s->fabric);
}

struct verbs_provider *verbs_memory_new(const struct memory_caps *with)
{
        return provider_new(with, 0);
}

struct verbs_provider *verbs_memory_new_slow(const struct memory_caps *with, uint32_t seed)
{
        return provider_new(with, seed ? seed : 1);
}

void verbs_memory_free(struct verbs_provider *p)
{
        struct shared *s = p ? shared_of(p) : NULL;

        if (!s)
                return;
        memory_fabric_free(s->fabric);
        pthread_mutex_destroy(&s->lock);
        free(s);
}

void verbs_memory_do(struct verbs_provider *p, void (*fn)(struct memory_fabric *f, void *arg),
                     void *arg)
{
        struct shared *s = shared_of(p);

        pthread_mutex_lock(&s->lock);
        if (fn)
                fn(s->fabric, arg);
        memory_idle(s->fabric);
        leave(s);
}

struct memory_count verbs_memory_leaks(struct verbs_provider *p)
{
        struct shared *s = shared_of(p);
        struct memory_count n;

        pthread_mutex_lock(&s->lock);
        n = memory_leaks(s->fabric);
        leave(s);
        return n;
}
