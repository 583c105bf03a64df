/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records what the kernel sends to queue 0, while every packet goes on as it came.
 *
 * Theory of operation
 *
 *   The library receives and replies as it always does, and the datagrams are copied on their way to it, in the
 *   wrapper of recvmmsg(). It begins after `skip` packets, when a connection has come up to speed, and ends with the
 *   first datagram that finds no room.
 */
/* wrap: recvmmsg */
#include "recording.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nq.h"

int __real_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout);

static struct {
	FILE *file;
	unsigned long skip;
	unsigned long room_bytes;
	bool full;
	bool failed;
} recorder;

static void recorder_write(const void *data, size_t bytes)
{
	recorder.failed |= fwrite(data, 1, bytes, recorder.file) != bytes;
}

static void recorder_take(const struct msghdr *header, uint32_t bytes)
{
	const struct nlmsghdr *nlh = header->msg_iov[0].iov_base;
	uint32_t left = bytes;

	if (nlh->nlmsg_type != RECORDING_PACKET)
		return;
	if (recorder.skip > 0) {
		recorder.skip--;
		return;
	}
	recorder.full |= sizeof(bytes) + bytes > recorder.room_bytes;
	if (recorder.full)
		return;
	recorder.room_bytes -= sizeof(bytes) + bytes;
	recorder.failed |= header->msg_flags & MSG_TRUNC;
	recorder_write(&bytes, sizeof(bytes));
	for (size_t i = 0; i < header->msg_iovlen && left > 0; i++) {
		const struct iovec *part = &header->msg_iov[i];
		uint32_t here = part->iov_len < left ? (uint32_t)part->iov_len : left;
		recorder_write(part->iov_base, here);
		left -= here;
	}
}

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	int received = __real_recvmmsg(fd, messages, count, flags, timeout);

	for (int i = 0; i < received; i++)
		recorder_take(&messages[i].msg_hdr, messages[i].msg_len);
	return received;
}

/* Ends the queue when there is enough. */
static void recorder_process(void *context, struct nq_packet packets[], unsigned int count)
{
	struct nq_queue **queue = context;

	(void)packets;
	(void)count;
	if (recorder.full)
		nq_stop(*queue);
}

static int recorder_run(const struct nq_config *config)
{
	struct nq_queue *queue;

	int error = nq_open(&queue, config);
	if (!error) {
		puts("ready");
		fflush(stdout);
		error = nq_run(queue, recorder_process, (void *)&queue);
	}
	nq_close(queue);
	return error;
}

/* Like the options of nfq-noop: --no-gso, --copy. */
static void recorder_configure(char *argv[], struct nq_config *config)
{
	nq_config_init(config, 0);
	if (strcmp(argv[2], "gso") != 0)
		config->flags &= ~(uint32_t)NQ_F_GSO;
	config->copy_bytes = (uint32_t)strtoul(argv[3], NULL, 10);
	recorder.skip = strtoul(argv[4], NULL, 10);
	recorder.room_bytes = strtoul(argv[5], NULL, 10);
}

int main(int argc, char *argv[])
{
	struct nq_config config;

	if (argc != 6) {
		fprintf(stderr, "usage: recorder FILE gso|no-gso COPY-BYTES SKIP-PACKETS MAX-BYTES\n");
		return 2;
	}
	recorder_configure(argv, &config);
	recorder.file = fopen(argv[1], "we");
	if (!recorder.file) {
		fprintf(stderr, "recorder: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	struct recording_head head = { config.flags, config.copy_bytes };
	recorder_write(&head, sizeof(head));
	int error = recorder_run(&config);
	if (fclose(recorder.file) != 0 || recorder.failed || error) {
		fprintf(stderr, "recorder: %s\n", error ? strerror(-error) : "the recording is not complete");
		return 1;
	}
	return 0;
}
