/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * nfq-udp: a load of UDP datagrams, at a rate, of which each is accounted for.
 *
 * A TCP connection to the receiver opens first: a line from the sender tells what will come, one from the receiver that
 * it is ready. It is idle while datagrams flow. Then the sender tells how many it has sent, and the receiver, as soon as
 * all have come or none has for a while, what it has counted.
 */
#ifndef NFQ_UDP_H
#define NFQ_UDP_H

#include <netinet/in.h>
#include <stdint.h>
#include <stdnoreturn.h>
#include <time.h>

#define UDP_LINE	 4096 /* bytes of a line on the control connection */
#define UDP_SECONDS_MOST 3600

struct udp_options {
	const char *address; /* of the receiver, for the sender; to bind, for the receiver */
	const char *port;
	uint64_t pps;	       /* datagrams a second */
	unsigned int bytes;    /* of payload in each */
	unsigned int segments; /* handed over by one system call */
	unsigned int seconds;
};

/* The first bytes of each datagram. */
struct udp_mark {
	uint64_t run;	 /* both in the byte order of the machine: the ends are one */
	uint64_t number; /* from 0 */
};

/* What the receiver tells, a line of numbers in this order; then a number for each second: datagrams that came in it. */
struct udp_counts {
	uint64_t received, duplicates, reordered, strange, nanoseconds, buffer_bytes, seconds;
};

/* Both return what main returns: 0, or 1 if it failed. */
int udp_send(const struct udp_options *options);
int udp_receive(const struct udp_options *options);

/* Prints what and why, and ends with status 1. `error` 0: no reason of the system. */
noreturn void udp_fail(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A connected, or bound, socket. Never fails: it ends the program. */
int udp_socket_open(const struct udp_options *options, int type, int is_receiver);

void udp_line_write(int control, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line without its end, or none if the other side has closed the connection. */
char *udp_line_read(int control, char line[static UDP_LINE]);

static inline uint64_t udp_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif
