/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the programs here share. Each proves one thing that the design takes for granted about the kernel, so that a
 * kernel on which it does not hold is found by name and not by its effects.
 *
 * A program runs in a network namespace of its own: one end sends UDP datagrams to the other over lo, and a rule in
 * OUTPUT queues them. It prints TAP.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nq.h"

#define KERNEL_PORT 5000

static int kernel_tests;
static bool kernel_failed;

/* ---- TAP ---- */

__attribute__((format(printf, 2, 3))) static inline void ok(bool passed, const char *format, ...)
{
	va_list arguments;

	printf("%sok %d - ", passed ? "" : "not ", ++kernel_tests);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
	kernel_failed |= !passed;
}

static inline void kernel_compare(long long got, long long expected, const char *name)
{
	ok(got == expected, "%s", name);
	if (got != expected)
		printf("# got %lld, expected %lld\n", got, expected);
}
#define is(got, expected, name) kernel_compare((long long)(got), (long long)(expected), name)

static inline int done_testing(void)
{
	printf("1..%d\n", kernel_tests);
	return kernel_failed ? 1 : 0;
}

__attribute__((noreturn)) static inline void skip_all(const char *reason)
{
	printf("1..0 # SKIP %s\n", reason);
	exit(0);
}

__attribute__((noreturn)) static inline void bail_out(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- a network namespace with a queue rule ---- */

static inline void kernel_write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		bail_out(path);
	close(fd);
}

static inline void kernel_become_root(void)
{
	char map[64];
	uid_t uid = getuid();
	gid_t gid = getgid();

	if (unshare(CLONE_NEWUSER) < 0)
		skip_all("an ordinary user may not make user namespaces here");
	kernel_write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	kernel_write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	kernel_write_file("/proc/self/gid_map", map);
}

static inline void kernel_enter_namespace(void)
{
	/* In two steps: the files of a network namespace belong to the root that there is when it is made. */
	if (getuid() != 0)
		kernel_become_root();
	if (unshare(CLONE_NEWNET) < 0)
		skip_all("no network namespace of our own");
}

static inline void kernel_raise_lo(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		bail_out("lo");
	request.ifr_flags |= IFF_UP;
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		bail_out("lo up");
	close(fd);
}

/* With "bypass", so that a packet which nobody answers is lost for no other reason. */
static inline void kernel_add_rule(void)
{
	static const char script[] =
		"exec 2>/dev/null; PATH=$PATH:/usr/sbin:/sbin; export XTABLES_LOCKFILE=/dev/null;"
		"nft 'add table ip nq; add chain ip nq out { type filter hook output priority 0; };"
		"     add rule ip nq out udp dport 5000 queue num 0 bypass' && exit;"
		"for i in iptables-nft iptables-legacy; do"
		"  $i -A OUTPUT -p udp --dport 5000 -j NFQUEUE --queue-num 0 --queue-bypass && exit;"
		"done; exit 1";

	/* NOLINTNEXTLINE(cert-env33-c): a fixed text, in a namespace of our own */
	if (system(script) != 0)
		skip_all("no nft queue statement and no iptables NFQUEUE target");
}

static inline void kernel_start(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	kernel_enter_namespace();
	kernel_raise_lo();
	kernel_add_rule();
}

static inline struct sockaddr_in kernel_address(void)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(KERNEL_PORT),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

/* A UDP socket with room for what these tests send. */
static inline int kernel_open_receiver(void)
{
	struct sockaddr_in address = kernel_address();
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int bytes = 1 << 20;

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		bail_out("receiver");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	return fd;
}

/* Sends `count` datagrams of `bytes` bytes, numbered from `first` in their first four bytes. */
static inline void kernel_send(unsigned int first, unsigned int count, size_t bytes)
{
	static char data[65000];
	struct sockaddr_in address = kernel_address();
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int room = 1 << 22;

	if (fd < 0 || bytes > sizeof(data))
		bail_out("sender");
	/* What waits in the queue is charged to its sender, who must not block. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	for (unsigned int i = 0; i < count; i++) {
		unsigned int number = first + i;
		memcpy(data, &number, sizeof(number));
		/* A dropped packet is reported as EPERM or ENOBUFS to a local sender, and is no failure of this test. */
		sendto(fd, data, bytes, MSG_DONTWAIT, (struct sockaddr *)&address, sizeof(address));
	}
	close(fd);
}

/* Takes what has arrived; returns its number, and whether each came in the order of its number. */
static inline unsigned int kernel_drain(int receiver, bool *in_order)
{
	unsigned int count = 0;
	unsigned int number;
	unsigned int last = 0;

	if (in_order)
		*in_order = true;
	while (recv(receiver, &number, sizeof(number), MSG_TRUNC) > 0) {
		if (in_order && count && number <= last)
			*in_order = false;
		last = number;
		count++;
	}
	return count;
}

static inline struct nq_queue *kernel_open_queue(const struct nq_config *config)
{
	struct nq_queue *queue;
	int error = nq_open(&queue, config);

	if (error) {
		errno = -error;
		bail_out("nq_open");
	}
	return queue;
}

/* Is there something to receive now? */
static inline bool kernel_pending(const struct nq_queue *queue)
{
	struct pollfd pollfd = { .fd = nq_socket(queue), .events = POLLIN };

	return poll(&pollfd, 1, 0) > 0;
}

static inline struct nq_status kernel_status(const struct nq_queue *queue)
{
	struct nq_status status = { 0 };
	int error = nq_status_read(queue, &status);

	if (error) {
		errno = -error;
		bail_out("nq_status_read");
	}
	return status;
}

static inline struct nq_counters kernel_counters(const struct nq_queue *queue)
{
	struct nq_counters counters;

	nq_counters_read(queue, &counters);
	return counters;
}

#endif
