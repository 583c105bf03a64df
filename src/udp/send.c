/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* linux/udp.h, which cannot be included beside netinet/udp.h */
#endif

#define AWAKE_NS     60000 /* a sleep ends about that late; the rest is spent looking at the clock */
#define BUFFER_BYTES 65536

struct sent {
	uint64_t datagrams, calls, nanoseconds;
};

static void segments_ask(int data, const struct udp_options *options)
{
	int size = (int)options->bytes;

	if (options->segments > 1 && setsockopt(data, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) < 0)
		udp_fail(errno, "UDP_SEGMENT: needs Linux 4.18 or newer");
}

static void wait_for(uint64_t deadline_ns)
{
	struct timespec until;
	uint64_t wake_ns = deadline_ns - AWAKE_NS;

	if (udp_now_ns() + AWAKE_NS < deadline_ns) {
		until.tv_sec = (time_t)(wake_ns / 1000000000);
		until.tv_nsec = (long)(wake_ns % 1000000000);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	while (udp_now_ns() < deadline_ns)
		;
}

static size_t burst_fill(unsigned char buffer[], const struct udp_options *options, uint64_t run, uint64_t first)
{
	for (unsigned int i = 0; i < options->segments; i++) {
		const struct udp_mark mark = { run, first + i };

		memcpy(buffer + (size_t)i * options->bytes, &mark, sizeof(mark));
	}
	return (size_t)options->segments * options->bytes;
}

/* Whoever comes late sends at once, without a pause, until the time is over. */
static struct sent datagrams_send(int data, const struct udp_options *options, uint64_t run)
{
	static unsigned char buffer[BUFFER_BYTES];
	const uint64_t start_ns = udp_now_ns();
	const uint64_t end_ns = start_ns + options->seconds * UINT64_C(1000000000);
	const double pause_ns = 1e9 * options->segments / (double)options->pps;
	struct sent sent = { 0 };

	while (udp_now_ns() < end_ns) {
		uint64_t due_ns = start_ns + (uint64_t)((double)sent.calls * pause_ns);

		if (due_ns >= end_ns)
			break;
		wait_for(due_ns);
		if (send(data, buffer, burst_fill(buffer, options, run, sent.datagrams), 0) < 0)
			udp_fail(errno, "cannot send %u datagrams of %u bytes", options->segments, options->bytes);
		sent.calls++;
		sent.datagrams += options->segments;
	}
	sent.nanoseconds = udp_now_ns() - start_ns;
	return sent;
}

static json_t *intervals_parse(const char *text, uint64_t seconds)
{
	json_t *intervals = json_array();
	uint64_t received;
	int length;

	for (uint64_t i = 0; i < seconds && sscanf(text, "%" SCNu64 "%n", &received, &length) == 1; i++, text += length)
		json_array_append_new(intervals, json_pack("{s:I,s:I,s:I}", "start_s", (json_int_t)i, "end_s",
							   (json_int_t)i + 1, "received", (json_int_t)received));
	return intervals;
}

static void result_print(const struct udp_options *options, const struct sent *sent, const char *line)
{
	struct udp_counts got;
	int length;
	json_t *result;

	if (sscanf(line, "counted %" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%n",
		   &got.received, &got.duplicates, &got.reordered, &got.strange, &got.nanoseconds, &got.buffer_bytes,
		   &got.seconds, &length) != 7)
		udp_fail(0, "the receiver said \"%s\" instead of its counts", line);
	result = json_pack("{s:i,s:I,s:I,s:I,s:f,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:I,s:o}", "schema", 1, "asked_pps",
			   (json_int_t)options->pps, "bytes", (json_int_t)options->bytes, "segments",
			   (json_int_t)options->segments, "seconds", (double)sent->nanoseconds / 1e9, "sent",
			   (json_int_t)sent->datagrams, "send_calls", (json_int_t)sent->calls, "received",
			   (json_int_t)got.received, "lost", (json_int_t)(sent->datagrams - got.received), "duplicates",
			   (json_int_t)got.duplicates, "reordered", (json_int_t)got.reordered, "strange",
			   (json_int_t)got.strange, "receive_seconds", (double)got.nanoseconds / 1e9,
			   "receive_buffer_bytes", (json_int_t)got.buffer_bytes, "intervals",
			   intervals_parse(line + length, got.seconds));
	if (!result || json_dumpf(result, stdout, JSON_COMPACT) < 0 || puts("") < 0 || fflush(stdout) < 0)
		udp_fail(errno, "cannot print the result");
	json_decref(result);
}

int udp_send(const struct udp_options *options)
{
	const uint64_t most = options->pps * options->seconds + options->segments;
	int control = udp_socket_open(options, SOCK_STREAM, 0);
	int data = udp_socket_open(options, SOCK_DGRAM, 0);
	char line[UDP_LINE];
	struct sent sent;
	uint64_t run;

	if (getrandom(&run, sizeof(run), 0) != sizeof(run))
		udp_fail(errno, "no random number");
	segments_ask(data, options);
	udp_line_write(control, "expect %" PRIu64 " %" PRIu64 " %u\n", run, most, options->bytes);
	if (!udp_line_read(control, line) || strcmp(line, "ready") != 0)
		udp_fail(0, "the receiver is not ready: is it nfq-udp?");
	sent = datagrams_send(data, options, run);
	udp_line_write(control, "sent %" PRIu64 "\n", sent.datagrams);
	if (!udp_line_read(control, line))
		udp_fail(0, "the receiver has ended without telling what it counted");
	result_print(options, &sent, line);
	close(data);
	close(control);
	return 0;
}
