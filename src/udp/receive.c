/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp.h"

#define BURST	     64
#define DATAGRAM     2048 /* more than any has */
#define BUFFER_BYTES (64 << 20)
#define QUIET_MS     300       /* after the sender's last word */
#define IDLE_MS	     5000      /* before it */
#define MOST	     400000000 /* datagrams that are told apart, a bit each */

struct reception {
	uint64_t run, most; /* as the sender has told */
	uint64_t total;	    /* that it has sent; UINT64_MAX until it tells */
	unsigned int bytes;
	unsigned char *seen; /* a bit a datagram */
	uint64_t next;	     /* after the greatest number that came */
	uint64_t first_ns, last_ns;
	uint64_t by_second[UDP_SECONDS_MOST + 1];
	struct udp_counts counts;
};

static void buffer_enlarge(int data, struct reception *reception)
{
	int size = BUFFER_BYTES;
	socklen_t length = sizeof(size);

	if (setsockopt(data, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(data, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	if (getsockopt(data, SOL_SOCKET, SO_RCVBUF, &size, &length) < 0)
		udp_fail(errno, "SO_RCVBUF");
	reception->counts.buffer_bytes = (uint64_t)size;
}

static void datagram_count(struct reception *reception, const unsigned char datagram[], size_t length, uint64_t now_ns)
{
	struct udp_mark mark = { 0 };
	uint64_t second;

	if (length == reception->bytes)
		memcpy(&mark, datagram, sizeof(mark));
	if (length != reception->bytes || mark.run != reception->run || mark.number >= reception->most) {
		reception->counts.strange++;
		return;
	}
	if (reception->seen[mark.number / 8] & 1U << mark.number % 8) {
		reception->counts.duplicates++;
		return;
	}
	reception->seen[mark.number / 8] |= (unsigned char)(1U << mark.number % 8);
	reception->counts.reordered += mark.number < reception->next;
	reception->next = mark.number < reception->next ? reception->next : mark.number + 1;
	reception->first_ns = reception->counts.received++ ? reception->first_ns : now_ns;
	reception->last_ns = now_ns;
	second = (now_ns - reception->first_ns) / 1000000000;
	reception->by_second[second < UDP_SECONDS_MOST ? second : UDP_SECONDS_MOST]++;
}

static void datagrams_read(int data, struct reception *reception)
{
	static unsigned char buffers[BURST][DATAGRAM];
	static struct mmsghdr messages[BURST];
	static struct iovec vectors[BURST];
	int count;

	do {
		for (int i = 0; i < BURST; i++) {
			vectors[i] = (struct iovec){ buffers[i], DATAGRAM };
			messages[i].msg_hdr = (struct msghdr){ .msg_iov = &vectors[i], .msg_iovlen = 1 };
		}
		count = recvmmsg(data, messages, BURST, MSG_DONTWAIT, NULL);
		if (count < 0 && errno != EAGAIN && errno != EINTR)
			udp_fail(errno, "cannot receive");
		for (int i = 0; i < count; i++)
			datagram_count(reception, buffers[i], messages[i].msg_len, udp_now_ns());
	} while (count == BURST);
}

/* Until all have come, or the sender is done and the line has become quiet, or nothing happens at all. */
static void datagrams_receive(int control, int data, struct reception *reception)
{
	struct pollfd sockets[] = { { .fd = data, .events = POLLIN }, { .fd = control, .events = POLLIN } };
	char line[UDP_LINE];

	while (reception->counts.received < reception->total) {
		bool is_told = reception->total != UINT64_MAX;
		int ready = poll(sockets, is_told ? 1 : 2, is_told ? QUIET_MS : IDLE_MS);

		if (ready < 0 && errno != EINTR)
			udp_fail(errno, "poll");
		if (ready == 0 && !is_told)
			udp_fail(0, "the sender has sent nothing for %d s", IDLE_MS / 1000);
		if (ready == 0)
			return;
		if (sockets[0].revents)
			datagrams_read(data, reception);
		if (!is_told && sockets[1].revents &&
		    (!udp_line_read(control, line) || sscanf(line, "sent %" SCNu64, &reception->total) != 1))
			udp_fail(0, "the sender has ended before it was done");
	}
}

static void counts_tell(int control, struct reception *reception)
{
	struct udp_counts *counts = &reception->counts;

	counts->nanoseconds = reception->last_ns - reception->first_ns;
	counts->seconds = counts->received ? counts->nanoseconds / 1000000000 + 1 : 0;
	udp_line_write(control,
		       "counted %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
		       counts->received, counts->duplicates, counts->reordered, counts->strange, counts->nanoseconds,
		       counts->buffer_bytes, counts->seconds);
	for (uint64_t i = 0; i < counts->seconds; i++)
		udp_line_write(control, " %" PRIu64, reception->by_second[i]);
	udp_line_write(control, "\n");
}

int udp_receive(const struct udp_options *options)
{
	static struct reception reception = { .total = UINT64_MAX };
	int listener = udp_socket_open(options, SOCK_STREAM, 1);
	int data = udp_socket_open(options, SOCK_DGRAM, 1);
	int control;
	char line[UDP_LINE];

	buffer_enlarge(data, &reception);
	if (listen(listener, 1) < 0 || (control = accept(listener, NULL, NULL)) < 0)
		udp_fail(errno, "cannot accept a connection");
	if (!udp_line_read(control, line) ||
	    sscanf(line, "expect %" SCNu64 " %" SCNu64 " %u", &reception.run, &reception.most, &reception.bytes) != 3)
		udp_fail(0, "who connected is not nfq-udp");
	if (reception.most > MOST || reception.bytes < sizeof(struct udp_mark) || reception.bytes > DATAGRAM)
		udp_fail(0,
			 "the sender wants to send %" PRIu64 " datagrams of %u bytes: too many, too small or too large",
			 reception.most, reception.bytes);
	reception.seen = calloc(1, reception.most / 8 + 1);
	if (!reception.seen)
		udp_fail(ENOMEM, "%" PRIu64 " datagrams", reception.most);
	udp_line_write(control, "ready\n");
	datagrams_receive(control, data, &reception);
	counts_tell(control, &reception);
	free(reception.seen);
	close(control);
	close(data);
	close(listener);
	return 0;
}
