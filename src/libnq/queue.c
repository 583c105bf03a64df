/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue: its socket, its buffers, and the way of packets through both.
 *
 * Theory of operation
 *
 *   nq_open() allocates everything. Datagram i of a receive lands in buffer i. nq_receive() takes what is there in one
 *   recvmmsg() and turns the datagrams into packets whose payload stays in the buffers; nq_reply() lays the verdicts one
 *   behind the other and sends them in one sendto(). Each receive begins with buffer 0 again: the usual one or two
 *   datagrams find it in the cache, however large a burst may be.
 *
 *   The socket is connected to the kernel, which then lets nobody else send to it. Every message is sent with the
 *   kernel's address all the same: then only the sender's capability counts, whoever opened the socket.
 *
 *   With spin_us the thread asks again and again for that long before it sleeps. That saves the wake-up, which the
 *   kernel does while it holds the lock of the queue. It pays only if packets come from another CPU meanwhile: where the
 *   thread keeps its own sender from running, all spinning is in vain. So that a thread that finds nothing a few times
 *   in a row sleeps at once for the next times, ever more of them.
 *
 *   Ids are consecutive, so a gap is the number of packets that the kernel queued and could not hand over.
 *
 *   The end: nq_stop() makes the kernel send no more, and its acknowledgement, which netlink puts behind every packet
 *   sent before, says that there are no more. It also wakes a thread that waits in recvmmsg().
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define QUEUE_ANSWER_TIMEOUT_MS 2000

/* After so many spins in vain the next are left out: 1, 2, 4, ... */
#define QUEUE_SPINS_IN_VAIN	 4u
#define QUEUE_SPINS_LEFT_OUT_MAX 64u

struct nq_queue {
	struct mnl_socket *socket;
	int fd;
	int status_fd; /* -errno if /proc did not let us */
	uint16_t number;
	unsigned int burst;
	uint32_t copy_bytes;
	uint32_t maxlen;
	uint32_t rcvbuf_granted;
	uint32_t last_id;
	int64_t spin_ns;
	unsigned int spins_left_out; /* at the last time */
	unsigned int spins_to_leave_out;
	unsigned int spins_in_vain; /* in a row */
	bool stopping;		    /* set by any thread, atomically */
	int end;		    /* 0, or what nq_receive() returns from now on */
	struct nq_counters counters;
	struct mmsghdr *messages;
	struct iovec *iovecs;
	char *buffers;
	struct nq_verdict *verdicts; /* complete but for the packets */
	unsigned int verdicts_prepared;
	char *marked_verdicts;
};

static const struct sockaddr_nl queue_kernel_address = { .nl_family = AF_NETLINK };

/* ---- open and close ---- */

/* As many as a burst at once; more only for a caller who holds packets, so that thousands of queues stay small. */
static void queue_prepare_verdicts(struct nq_queue *queue, unsigned int count)
{
	for (; queue->verdicts_prepared < count; queue->verdicts_prepared++)
		nq_verdict_init(&queue->verdicts[queue->verdicts_prepared], queue->number);
}

static int queue_allocate(struct nq_queue *queue)
{
	size_t buffer_bytes = queue->copy_bytes + NQ_MESSAGE_OVERHEAD;
	buffer_bytes -= buffer_bytes % 64; /* each buffer begins a cache line */

	queue->messages = calloc(queue->burst, sizeof(*queue->messages));
	queue->iovecs = calloc(queue->burst, sizeof(*queue->iovecs));
	queue->buffers = aligned_alloc(64, queue->burst * buffer_bytes);
	queue->verdicts = calloc(NQ_BURST_MAX, sizeof(*queue->verdicts));
	queue->marked_verdicts = malloc((size_t)NQ_BURST_MAX * NQ_VERDICT_BYTES_MAX);
	if (!queue->messages || !queue->iovecs || !queue->buffers || !queue->verdicts || !queue->marked_verdicts)
		return -ENOMEM;

	for (unsigned int i = 0; i < queue->burst; i++) {
		queue->iovecs[i] = (struct iovec){ queue->buffers + i * buffer_bytes, buffer_bytes };
		queue->messages[i].msg_hdr = (struct msghdr){ .msg_iov = &queue->iovecs[i], .msg_iovlen = 1 };
	}
	queue_prepare_verdicts(queue, queue->burst);
	return 0;
}

static int queue_open_socket(struct nq_queue *queue)
{
	int one = 1;

	queue->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	if (!queue->socket)
		return -errno;
	queue->fd = mnl_socket_get_fd(queue->socket);
	if (mnl_socket_bind(queue->socket, 0, MNL_SOCKET_AUTOPID) < 0)
		return -errno;
	if (connect(queue->fd, (const struct sockaddr *)&queue_kernel_address, sizeof(queue_kernel_address)) < 0)
		return -errno;
	/* Optional: refused verdicts come back without their own bytes, which leaves more room for packets. */
	mnl_socket_setsockopt(queue->socket, NETLINK_CAP_ACK, &one, sizeof(one));
	return 0;
}

static int queue_ask_rcvbuf(struct nq_queue *queue, uint32_t bytes)
{
	int wanted = (int)bytes;
	int granted;
	socklen_t length = sizeof(granted);

	if (setsockopt(queue->fd, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof(wanted)) < 0 &&
	    setsockopt(queue->fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted)) < 0)
		return -errno;
	if (getsockopt(queue->fd, SOL_SOCKET, SO_RCVBUF, &granted, &length) < 0)
		return -errno;
	queue->rcvbuf_granted = (uint32_t)granted;
	return 0;
}

/*
 * Buffer and length of the queue follow from each other; who asks for both gets both.
 *
 * A length that not even the smallest messages could reach within the buffer is lowered. What the largest would need is
 * no reason to lower it: small packets that fit would be dropped.
 */
static int queue_size(struct nq_queue *queue, const struct nq_config *config)
{
	uint32_t length = config->maxlen ? config->maxlen : NQ_MAXLEN_DEFAULT;
	uint32_t bytes = config->rcvbuf_bytes ? config->rcvbuf_bytes : nq_rcvbuf_bytes(length, config->copy_bytes);
	int error = queue_ask_rcvbuf(queue, bytes);

	if (error)
		return error;
	uint32_t granted = queue->rcvbuf_granted / 2;
	uint32_t fitting = UINT32_MAX;
	if (config->maxlen == NQ_MAXLEN_BY_SIZE && config->rcvbuf_bytes)
		fitting = nq_maxlen_fitting(granted, config->copy_bytes);
	else if (!config->rcvbuf_bytes && granted < bytes)
		fitting = nq_maxlen_fitting(granted, NQ_COPY_META);
	queue->maxlen = length < fitting ? length : fitting;
	return 0;
}

static int queue_send(const struct nq_queue *queue, const void *message, size_t bytes)
{
	ssize_t sent;

	do {
		sent = sendto(queue->fd, message, bytes, 0, (const struct sockaddr *)&queue_kernel_address,
			      sizeof(queue_kernel_address));
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

/*
 * Waits for the answer to the bind. A packet that comes before it proves the bind as well, and is left in the socket;
 * so is the acknowledgement behind it, which nq_receive() ignores.
 */
static int queue_await_bound(struct nq_queue *queue)
{
	_Alignas(struct nlmsghdr) char head[256];
	struct pollfd pollfd = { .fd = queue->fd, .events = POLLIN };
	struct nq_packet packet;
	struct nq_answer answer;

	int ready = poll(&pollfd, 1, QUEUE_ANSWER_TIMEOUT_MS);
	if (ready < 0)
		return -errno;
	if (ready == 0)
		return -ETIMEDOUT;
	ssize_t bytes = recv(queue->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	if (bytes < 0)
		return errno == ENOBUFS ? 0 : -errno; /* overrun by packets: bound */
	if (nq_message_parse(head, (size_t)bytes, MSG_TRUNC, &packet, &answer) != NQ_MESSAGE_ANSWER)
		return 0;
	if (recv(queue->fd, head, sizeof(head), MSG_DONTWAIT) < 0)
		return -errno;
	return answer.error;
}

static bool queue_may_administer(void)
{
	cap_flag_value_t value = CAP_CLEAR;
	cap_t caps = cap_get_proc();

	if (caps) {
		cap_get_flag(caps, CAP_NET_ADMIN, CAP_EFFECTIVE, &value);
		cap_free(caps);
	}
	return value == CAP_SET;
}

/* The kernel says EPERM for a missing capability and for a foreign queue, and EINVAL for a module it does not have. */
static int queue_explain_refusal(const struct nq_queue *queue, int error)
{
	struct nq_status status;

	if (error == -EPERM && queue->status_fd >= 0 && queue_may_administer() &&
	    nq_status_find(queue->status_fd, queue->number, &status) == 0)
		return -EBUSY;
	if (error == -EINVAL && queue->status_fd == -EPROTONOSUPPORT)
		return -EPROTONOSUPPORT;
	return error;
}

/* The kernel acknowledges a copy mode that it does not know, and then drops everything. */
static int queue_verify(const struct nq_queue *queue)
{
	uint32_t mode = queue->copy_bytes == NQ_COPY_META ? NFQNL_COPY_META : NFQNL_COPY_PACKET;
	struct nq_status status;

	if (queue->status_fd < 0)
		return 0;
	int error = nq_status_find(queue->status_fd, queue->number, &status);
	if (error)
		return error;
	return status.copy_mode == mode ? 0 : -EPROTO;
}

static int queue_bind(struct nq_queue *queue, const struct nq_config *config)
{
	_Alignas(struct nlmsghdr) char message[NQ_CONFIG_BYTES_MAX];
	struct nq_config sized = *config;

	sized.maxlen = queue->maxlen;
	int error = queue_send(queue, message, nq_config_put_bind(message, &sized));
	if (!error)
		error = queue_await_bound(queue);
	/* Only now: the message may have made the kernel load the module that provides the file. */
	queue->status_fd = nq_status_open();
	return error ? queue_explain_refusal(queue, error) : queue_verify(queue);
}

int nq_open(struct nq_queue **queue, const struct nq_config *config)
{
	*queue = NULL;
	int error = nq_config_validate(config);
	if (error)
		return error;
	struct nq_queue *opened = calloc(1, sizeof(*opened));
	if (!opened)
		return -ENOMEM;
	opened->number = config->queue;
	opened->burst = config->burst;
	opened->copy_bytes = config->copy_bytes;
	opened->spin_ns = (int64_t)config->spin_us * 1000;
	opened->status_fd = -EBADF;

	error = queue_allocate(opened);
	if (!error)
		error = queue_open_socket(opened);
	if (!error)
		error = queue_size(opened, config);
	if (!error)
		error = queue_bind(opened, config);
	if (error) {
		nq_close(opened);
		return error;
	}
	*queue = opened;
	return 0;
}

void nq_close(struct nq_queue *queue)
{
	if (!queue)
		return;
	if (queue->socket)
		mnl_socket_close(queue->socket); /* which unbinds */
	if (queue->status_fd >= 0)
		close(queue->status_fd);
	free(queue->marked_verdicts);
	free(queue->verdicts);
	free(queue->buffers);
	free(queue->iovecs);
	free(queue->messages);
	free(queue);
}

/* ---- receive ---- */

static void queue_count_packets(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count)
{
	struct nq_counters *counters = &queue->counters;
	uint64_t bytes = 0;
	uint64_t gso = 0;
	uint64_t truncated = 0;
	uint64_t greatest = counters->max_packet_bytes;

	if (count == 0)
		return;
	for (unsigned int i = 0; i < count; i++) {
		const struct nq_packet *packet = &packets[i];
		bytes += packet->length_bytes;
		gso += (packet->skb_info & NFQA_SKB_GSO) != 0;
		truncated += packet->length_bytes > packet->payload_bytes;
		if (packet->length_bytes > greatest)
			greatest = packet->length_bytes;
	}
	uint32_t missing = packets[count - 1].id - queue->last_id - count;
	queue->last_id = packets[count - 1].id;
	if (missing <= INT32_MAX) /* ids only grow: a larger difference would be a step back */
		nq_count(&counters->lost_ids, missing);
	nq_count(&counters->packets, count);
	nq_count(&counters->bytes, bytes);
	nq_count(&counters->gso_packets, gso);
	nq_count(&counters->truncated_packets, truncated);
	nq_count(&counters->max_packet_bytes, greatest - counters->max_packet_bytes);
}

static void queue_take_answer(struct nq_queue *queue, const struct nq_answer *answer)
{
	switch (answer->sequence) {
	case NQ_SEQUENCE_STOP:
		queue->end = answer->error ? answer->error : -ESHUTDOWN;
		break;
	case NQ_SEQUENCE_VERDICT:
		nq_count(answer->error == -ENOENT ? &queue->counters.flushed : &queue->counters.verdict_errors, 1);
		break;
	default:
		break; /* the bind's, overtaken by a packet */
	}
}

static void queue_take_notice(void *context, enum nq_message kind, const struct nq_answer *answer)
{
	struct nq_queue *queue = context;

	if (kind == NQ_MESSAGE_ANSWER)
		queue_take_answer(queue, answer);
	else if (kind == NQ_MESSAGE_MALFORMED)
		nq_count(&queue->counters.malformed, 1);
}

/* An error of the receiving call itself. */
static int queue_take_failure(struct nq_queue *queue, int error)
{
	if (error == EINTR || error == EAGAIN)
		return 0;
	if (error != ENOBUFS)
		return -error;
	nq_count(&queue->counters.overruns, 1);
	/* The acknowledgement of the stop may be among what found no room. */
	return __atomic_load_n(&queue->stopping, __ATOMIC_RELAXED) ? nq_stop(queue) : 0;
}

static int64_t queue_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool queue_may_spin(struct nq_queue *queue)
{
	if (!queue->spin_ns)
		return false;
	if (!queue->spins_to_leave_out)
		return true;
	queue->spins_to_leave_out--;
	return false;
}

static void queue_take_spin_in_vain(struct nq_queue *queue)
{
	if (++queue->spins_in_vain < QUEUE_SPINS_IN_VAIN)
		return;
	queue->spins_left_out = queue->spins_left_out ? 2 * queue->spins_left_out : 1;
	if (queue->spins_left_out > QUEUE_SPINS_LEFT_OUT_MAX)
		queue->spins_left_out = QUEUE_SPINS_LEFT_OUT_MAX;
	queue->spins_to_leave_out = queue->spins_left_out;
}

/* Asks until there is something or the time is over. As recvmmsg(); EAGAIN if there was nothing. */
static int queue_spin(struct nq_queue *queue, unsigned int most)
{
	int64_t end_ns = 0;

	for (;;) {
		int received = recvmmsg(queue->fd, queue->messages, most, MSG_DONTWAIT, NULL);
		if (received >= 0) {
			nq_count(&queue->counters.spin_receives, 1);
			queue->spins_in_vain = queue->spins_left_out = 0;
			return received;
		}
		if (errno != EAGAIN)
			return received;
		nq_count(&queue->counters.spin_calls, 1);
		int64_t now_ns = queue_now_ns();
		if (!end_ns)
			end_ns = now_ns + queue->spin_ns;
		if (now_ns >= end_ns)
			break;
	}
	queue_take_spin_in_vain(queue);
	errno = EAGAIN;
	return -1;
}

static int queue_await_datagrams(struct nq_queue *queue, unsigned int most)
{
	nq_count(&queue->counters.receive_calls, 1);
	if (queue_may_spin(queue)) {
		int received = queue_spin(queue, most);
		if (received >= 0 || errno != EAGAIN)
			return received;
	}
	return recvmmsg(queue->fd, queue->messages, most, MSG_WAITFORONE, NULL);
}

int nq_receive(struct nq_queue *queue, struct nq_packet packets[], unsigned int capacity)
{
	unsigned int most = capacity < queue->burst ? capacity : queue->burst;

	if (queue->end)
		return queue->end;
	int received = queue_await_datagrams(queue, most);
	if (received < 0)
		return queue_take_failure(queue, errno);
	unsigned int count = nq_burst_parse(queue->messages, (unsigned int)received, packets, queue_take_notice, queue);
	queue_count_packets(queue, packets, count);
	return count ? (int)count : queue->end;
}

/* ---- reply ---- */

/* Lays out verdicts without marks; returns their length, or SIZE_MAX if one of them has a mark. */
static size_t queue_lay_plain(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count)
{
	struct nq_verdict *verdict = queue->verdicts;

	queue_prepare_verdicts(queue, count);
	for (unsigned int i = 0; i < count; i++) {
		if (packets[i].verdict == NQ_HOLD)
			continue;
		if (packets[i].set_mark)
			return SIZE_MAX;
		nq_verdict_set(verdict++, &packets[i]);
	}
	return (size_t)((char *)verdict - (char *)queue->verdicts);
}

static size_t queue_lay_marked(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < count; i++)
		if (packets[i].verdict != NQ_HOLD)
			bytes += nq_verdict_put(queue->marked_verdicts + bytes, queue->number, &packets[i]);
	return bytes;
}

static int queue_reply_part(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count)
{
	const void *message = queue->verdicts;
	size_t bytes = queue_lay_plain(queue, packets, count);

	if (bytes == SIZE_MAX) {
		message = queue->marked_verdicts;
		bytes = queue_lay_marked(queue, packets, count);
	}
	if (bytes == 0)
		return 0;
	nq_count(&queue->counters.send_calls, 1);
	return queue_send(queue, message, bytes);
}

int nq_reply(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count)
{
	int error = 0;

	while (count > 0 && !error) {
		unsigned int part = count < NQ_BURST_MAX ? count : NQ_BURST_MAX;
		error = queue_reply_part(queue, packets, part);
		packets += part;
		count -= part;
	}
	return error;
}

int nq_run(struct nq_queue *queue, nq_process_fn *process, void *context)
{
	struct nq_packet packets[NQ_BURST_DEFAULT] = { 0 };

	for (;;) {
		int count = nq_receive(queue, packets, NQ_BURST_DEFAULT);
		if (count < 0)
			return count == -ESHUTDOWN ? 0 : count;
		if (count == 0)
			continue;
		process(context, packets, (unsigned int)count);
		int error = nq_reply(queue, packets, (unsigned int)count);
		if (error)
			return error;
	}
}

/* ---- stop, and what other threads may ask ---- */

int nq_stop(struct nq_queue *queue)
{
	_Alignas(struct nlmsghdr) char message[NQ_CONFIG_BYTES_MAX];

	__atomic_store_n(&queue->stopping, true, __ATOMIC_RELAXED);
	return queue_send(queue, message, nq_config_put_stop(message, queue->number));
}

void nq_counters_read(const struct nq_queue *queue, struct nq_counters *counters)
{
	const struct nq_counters *from = &queue->counters;

	*counters = (struct nq_counters){
		.packets = __atomic_load_n(&from->packets, __ATOMIC_RELAXED),
		.bytes = __atomic_load_n(&from->bytes, __ATOMIC_RELAXED),
		.gso_packets = __atomic_load_n(&from->gso_packets, __ATOMIC_RELAXED),
		.truncated_packets = __atomic_load_n(&from->truncated_packets, __ATOMIC_RELAXED),
		.max_packet_bytes = __atomic_load_n(&from->max_packet_bytes, __ATOMIC_RELAXED),
		.receive_calls = __atomic_load_n(&from->receive_calls, __ATOMIC_RELAXED),
		.spin_calls = __atomic_load_n(&from->spin_calls, __ATOMIC_RELAXED),
		.spin_receives = __atomic_load_n(&from->spin_receives, __ATOMIC_RELAXED),
		.send_calls = __atomic_load_n(&from->send_calls, __ATOMIC_RELAXED),
		.overruns = __atomic_load_n(&from->overruns, __ATOMIC_RELAXED),
		.lost_ids = __atomic_load_n(&from->lost_ids, __ATOMIC_RELAXED),
		.flushed = __atomic_load_n(&from->flushed, __ATOMIC_RELAXED),
		.verdict_errors = __atomic_load_n(&from->verdict_errors, __ATOMIC_RELAXED),
		.malformed = __atomic_load_n(&from->malformed, __ATOMIC_RELAXED),
	};
}

int nq_status_read(const struct nq_queue *queue, struct nq_status *status)
{
	if (queue->status_fd < 0)
		return queue->status_fd;
	return nq_status_find(queue->status_fd, queue->number, status);
}

int nq_socket(const struct nq_queue *queue)
{
	return queue->fd;
}

uint32_t nq_rcvbuf_granted(const struct nq_queue *queue)
{
	return queue->rcvbuf_granted;
}

uint32_t nq_maxlen_granted(const struct nq_queue *queue)
{
	return queue->maxlen;
}
