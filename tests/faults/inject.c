/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every call that the library makes fails once, with every error that it might give: on opening, serving, pausing,
 * adopting and stopping a queue on which packets arrive. Each time the run must end, leave no descriptor and no queue
 * behind, and either say that it failed or have lost no packet.
 */
/* wrap: socket bind connect setsockopt getsockopt getsockname sendto poll __poll_chk recv __recv_chk recvmmsg */
/* wrap: calloc malloc aligned_alloc open pread __pread_chk */
#include <dirent.h>
#include <signal.h>
#include <sys/time.h>

#include "../kernel/kernel.h"

enum { COUNT = 20, BURST = 8, LIMIT_S = 5 };

#define CALLS(call)                                                                                                    \
	call(socket) call(bind) call(connect) call(setsockopt) call(getsockopt) call(getsockname) call(sendto)         \
		call(poll) call(recv) call(recvmmsg) call(calloc) call(malloc) call(aligned_alloc) call(open)          \
			call(pread)

#define CALL_NUMBER(name) CALL_##name,
enum call { CALLS(CALL_NUMBER) CALL_COUNT };

#define CALL_NAME(name) #name,
static const char *const call_names[] = { CALLS(CALL_NAME) };

static struct {
	bool enabled;
	enum call call;
	unsigned int number; /* 0 = none shall fail */
	int error;
	unsigned int counts[CALL_COUNT];
} inject;

/* Is this the call that shall fail? */
static bool inject_here(enum call call)
{
	if (!inject.enabled)
		return false;
	bool here = ++inject.counts[call] == inject.number && call == inject.call;
	if (here)
		errno = inject.error;
	return here;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): types, names and lists of parameters */
#define WRAP(failure, type, call, name, parameters, arguments)                                                         \
	type __real_##name parameters;                                                                                 \
	type __wrap_##name parameters;                                                                                 \
	type __wrap_##name parameters                                                                                  \
	{                                                                                                              \
		return inject_here(CALL_##call) ? (failure) : __real_##name arguments;                                 \
	}
/* NOLINTEND(bugprone-macro-parentheses) */

WRAP(-1, int, socket, socket, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(-1, int, bind, bind, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length))
WRAP(-1, int, connect, connect, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length))
WRAP(-1, int, setsockopt, setsockopt, (int fd, int level, int name, const void *value, socklen_t length),
     (fd, level, name, value, length))
WRAP(-1, int, getsockopt, getsockopt, (int fd, int level, int name, void *value, socklen_t *length),
     (fd, level, name, value, length))
WRAP(-1, int, getsockname, getsockname, (int fd, struct sockaddr *address, socklen_t *length), (fd, address, length))
WRAP(-1, ssize_t, sendto, sendto,
     (int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t length),
     (fd, data, bytes, flags, to, length))
WRAP(-1, int, poll, poll, (struct pollfd * fds, nfds_t count, int ms), (fds, count, ms))
WRAP(-1, int, poll, __poll_chk, (struct pollfd * fds, nfds_t count, int ms, size_t room), (fds, count, ms, room))
WRAP(-1, ssize_t, recv, recv, (int fd, void *data, size_t bytes, int flags), (fd, data, bytes, flags))
WRAP(-1, ssize_t, recv, __recv_chk, (int fd, void *data, size_t bytes, size_t room, int flags),
     (fd, data, bytes, room, flags))
WRAP(-1, int, recvmmsg, recvmmsg,
     (int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout),
     (fd, messages, count, flags, timeout))
WRAP(NULL, void *, calloc, calloc, (size_t count, size_t bytes), (count, bytes))
WRAP(NULL, void *, malloc, malloc, (size_t bytes), (bytes))
WRAP(NULL, void *, aligned_alloc, aligned_alloc, (size_t alignment, size_t bytes), (alignment, bytes))
WRAP(-1, ssize_t, pread, pread, (int fd, void *data, size_t bytes, off_t offset), (fd, data, bytes, offset))
WRAP(-1, ssize_t, pread, __pread_chk, (int fd, void *data, size_t bytes, off_t offset, size_t room),
     (fd, data, bytes, offset, room))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	return inject_here(CALL_open) ? -1 : __real_open(path, flags); /* the library creates no file */
}

/* ---- one run ---- */

static int receiver;

/* Answers until nothing comes, or until `end` comes, or an error does. */
static int serve(struct nq_queue *queue, int end)
{
	struct nq_packet packets[BURST];

	for (;;) {
		if (!end && !kernel_pending(queue))
			return 0;
		inject.enabled = true;
		int count = nq_receive(queue, packets, BURST);
		int error = count > 0 ? nq_reply(queue, packets, (unsigned int)count) : 0;
		inject.enabled = false;
		if (count < 0 || error)
			return count == end ? 0 : (count < 0 ? count : error);
	}
}

static int ask(int (*what)(struct nq_queue *queue), struct nq_queue *queue, int end)
{
	inject.enabled = true;
	int error = what(queue);
	inject.enabled = false;
	return error ? error : serve(queue, end);
}

/* The second half, by a successor. */
static int run_adopted(const struct nq_config *config, const struct nq_handover *handover)
{
	struct nq_ledger ledger;
	struct nq_queue *queue;

	inject.enabled = true;
	int error = nq_adopt(&queue, config, handover);
	inject.enabled = false;
	if (error) {
		close(handover->socket);
		return error;
	}
	kernel_send(COUNT, COUNT, 100);
	error = serve(queue, 0);
	if (!error) {
		inject.enabled = true;
		int ledger_error = nq_ledger_read(queue, &ledger);
		inject.enabled = false;
		if (!ledger_error && ledger.residue)
			printf("# residue %lld\n", (long long)ledger.residue);
		error = ledger_error == -EAGAIN ? 0 : ledger_error;
		if (!error && ledger.residue)
			error = -EUCLEAN;
	}
	if (!error)
		error = ask(nq_stop, queue, -ESHUTDOWN);
	nq_close(queue);
	return error;
}

static int run(bool crash)
{
	struct nq_handover handover;
	struct nq_config config;
	struct nq_queue *queue;

	nq_config_init(&config, 0);
	config.burst = BURST;
	inject.enabled = true;
	int error = nq_open(&queue, &config);
	inject.enabled = false;
	if (error)
		return error;
	kernel_send(0, COUNT, 100);
	error = ask(nq_pause, queue, -ECANCELED);
	nq_handover_read(queue, &handover);
	handover.socket = fcntl(handover.socket, F_DUPFD_CLOEXEC, 0);
	handover.status = -1;
	handover.is_known = !crash;
	nq_close(queue);
	if (error) {
		close(handover.socket);
		return error;
	}
	return run_adopted(&config, &handover);
}

/* ---- all runs ---- */

static int count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	if (!directory)
		bail_out("/proc/self/fd");
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static const char *current = "";

static void end_hanging(int number)
{
	(void)number;
	static const char text[] = "Bail out! a run hangs: ";
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 || write(STDOUT_FILENO, current, strlen(current)) < 0)
		_exit(2);
	_exit(1);
}

/* A run that ends in order has lost nothing, and one that fails leaves nothing. */
static bool run_holds(bool crash, const char *name)
{
	int before = count_descriptors();

	current = name;
	alarm(LIMIT_S);
	memset(inject.counts, 0, sizeof(inject.counts));
	int error = run(crash);
	unsigned int arrived = kernel_drain(receiver, NULL);
	alarm(0);
	struct nq_owner owner;
	bool holds = true;
	if (count_descriptors() != before)
		holds = printf("# %s: descriptors are left open\n", name) < 0;
	if (nq_owner_find(0, &owner) != -ENOENT)
		holds = printf("# %s: the queue is left bound\n", name) < 0;
	if (!error && arrived != 2 * COUNT)
		holds = printf("# %s: %u packets of %d, and no error\n", name, arrived, 2 * COUNT) < 0;
	return holds;
}

static unsigned int test_call(bool crash, enum call call, unsigned int count)
{
	static const int errors[] = { EPERM, ENOBUFS, EINTR, ENOMEM };
	bool allocates = call == CALL_calloc || call == CALL_malloc || call == CALL_aligned_alloc;
	unsigned int failed = 0;
	char name[128];

	inject.call = call;
	for (unsigned int i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		for (inject.number = 1; inject.number <= count; inject.number++) {
			inject.error = errors[i];
			if (allocates && inject.error != ENOMEM)
				continue;
			snprintf(name, sizeof(name), "%s, call %u, %s", call_names[call], inject.number,
				 strerror(errors[i]));
			failed += !run_holds(crash, name);
		}
	return failed;
}

static void test_calls(bool crash)
{
	unsigned int counts[CALL_COUNT];

	inject.number = 0;
	ok(run_holds(crash, "nothing fails"), "%s: a run in which nothing fails", crash ? "crash" : "handover");
	memcpy(counts, inject.counts, sizeof(counts));
	for (enum call call = 0; call < CALL_COUNT; call++)
		if (counts[call])
			ok(!test_call(crash, call, counts[call]), "%s: each of %u calls of %s fails in each way",
			   crash ? "crash" : "handover", counts[call], call_names[call]);
	ok(counts[CALL_sendto] && counts[CALL_recvmmsg] && counts[CALL_pread] && counts[CALL_calloc],
	   "the calls that matter were made");
}

int main(void)
{
	kernel_start();
	signal(SIGALRM, end_hanging);
	receiver = kernel_open_receiver();
	test_calls(false);
	test_calls(true);
	return done_testing();
}
