/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue: its socket, its buffers, and the way of packets through both.
 *
 * Theory of operation
 *
 *   nq_open() allocates everything. Slot i of a receive holds one datagram: a recvmmsg() header, an iovec, a sender's
 *   address and buffer i. nq_receive() takes what is there in one recvmmsg() and turns the datagrams into packets whose
 *   payload stays in the slots; nq_reply() lays the verdicts one behind the other and sends them in one sendmsg().
 *
 *   Every message is sent with the kernel's address: then only the sender's capability counts, whoever opened the
 *   socket.
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
#include <unistd.h>

#include "internal.h"

#define QUEUE_ANSWER_TIMEOUT_MS 2000

struct queue_slot {
	struct sockaddr_nl sender;
	struct iovec iovec;
};

struct nq_queue {
	struct mnl_socket *socket;
	int fd;
	int status_fd; /* -errno if /proc did not let us */
	uint16_t number;
	unsigned int burst;
	uint32_t copy_bytes;
	uint32_t rcvbuf_granted;
	uint32_t last_id;
	bool stopping; /* set by any thread, atomically */
	int end;       /* 0, or what nq_receive() returns from now on */
	struct nq_counters counters;
	struct mmsghdr *messages;
	struct queue_slot *slots;
	char *buffers;
	char *verdicts;
};

static const struct sockaddr_nl queue_kernel_address = { .nl_family = AF_NETLINK };

/* ---- open and close ---- */

static int queue_allocate(struct nq_queue *queue)
{
	size_t buffer_bytes = queue->copy_bytes + NQ_MESSAGE_OVERHEAD;
	buffer_bytes -= buffer_bytes % 64; /* each buffer begins a cache line */

	queue->messages = calloc(queue->burst, sizeof(*queue->messages));
	queue->slots = calloc(queue->burst, sizeof(*queue->slots));
	queue->buffers = aligned_alloc(64, queue->burst * buffer_bytes);
	queue->verdicts = malloc((size_t)NQ_BURST_MAX * NQ_VERDICT_BYTES_MAX);
	if (!queue->messages || !queue->slots || !queue->buffers || !queue->verdicts)
		return -ENOMEM;

	for (unsigned int i = 0; i < queue->burst; i++) {
		struct queue_slot *slot = &queue->slots[i];
		slot->iovec = (struct iovec){ queue->buffers + i * buffer_bytes, buffer_bytes };
		queue->messages[i].msg_hdr = (struct msghdr){
			.msg_name = &slot->sender,
			.msg_namelen = sizeof(slot->sender),
			.msg_iov = &slot->iovec,
			.msg_iovlen = 1,
		};
	}
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
	/* Optional: refused verdicts come back without their own bytes, which leaves more room for packets. */
	mnl_socket_setsockopt(queue->socket, NETLINK_CAP_ACK, &one, sizeof(one));
	return 0;
}

static int queue_size_rcvbuf(struct nq_queue *queue, const struct nq_config *config)
{
	int wanted = (int)config->rcvbuf_bytes;
	int granted;
	socklen_t length = sizeof(granted);

	if (config->rcvbuf_bytes == NQ_RCVBUF_BY_SIZE)
		wanted = (int)nq_rcvbuf_bytes(config->maxlen, config->copy_bytes);
	if (setsockopt(queue->fd, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof(wanted)) < 0 &&
	    setsockopt(queue->fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof(wanted)) < 0)
		return -errno;
	if (getsockopt(queue->fd, SOL_SOCKET, SO_RCVBUF, &granted, &length) < 0)
		return -errno;
	queue->rcvbuf_granted = (uint32_t)granted;
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
	if (nq_message_parse(head, (size_t)bytes, true, &packet, &answer) != NQ_MESSAGE_ANSWER)
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

	int error = queue_send(queue, message, nq_config_put_bind(message, config));
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
	opened->status_fd = -EBADF;

	error = queue_allocate(opened);
	if (!error)
		error = queue_open_socket(opened);
	if (!error)
		error = queue_size_rcvbuf(opened, config);
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
	free(queue->verdicts);
	free(queue->buffers);
	free(queue->slots);
	free(queue->messages);
	free(queue);
}

/* ---- receive ---- */

static void queue_count_packet(struct nq_queue *queue, const struct nq_packet *packet)
{
	struct nq_counters *counters = &queue->counters;
	uint32_t gap = packet->id - queue->last_id - 1;

	queue->last_id = packet->id;
	if (gap && gap <= INT32_MAX) /* ids only grow: a larger difference would be a step back */
		nq_count(&counters->lost_ids, gap);
	nq_count(&counters->packets, 1);
	nq_count(&counters->bytes, packet->length_bytes);
	if (packet->skb_info & NFQA_SKB_GSO)
		nq_count(&counters->gso_packets, 1);
	if (packet->length_bytes > packet->payload_bytes)
		nq_count(&counters->truncated_packets, 1);
	if (packet->length_bytes > counters->max_packet_bytes)
		nq_count(&counters->max_packet_bytes, packet->length_bytes - counters->max_packet_bytes);
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

static bool queue_take_datagram(struct nq_queue *queue, struct mmsghdr *message, struct nq_packet *packet)
{
	const struct sockaddr_nl *sender = message->msg_hdr.msg_name;
	bool truncated = message->msg_hdr.msg_flags & MSG_TRUNC;
	struct nq_answer answer;

	/* Only a privileged process could send us something, but what it sends is no packet of the kernel's. */
	if (message->msg_hdr.msg_namelen != sizeof(*sender) || sender->nl_pid != 0) {
		nq_count(&queue->counters.malformed, 1);
		return false;
	}
	switch (nq_message_parse(message->msg_hdr.msg_iov->iov_base, message->msg_len, truncated, packet, &answer)) {
	case NQ_MESSAGE_PACKET:
		queue_count_packet(queue, packet);
		return true;
	case NQ_MESSAGE_ANSWER:
		queue_take_answer(queue, &answer);
		return false;
	case NQ_MESSAGE_MALFORMED:
		nq_count(&queue->counters.malformed, 1);
		return false;
	case NQ_MESSAGE_OTHER:
		return false;
	}
	return false;
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

int nq_receive(struct nq_queue *queue, struct nq_packet packets[], unsigned int capacity)
{
	unsigned int most = capacity < queue->burst ? capacity : queue->burst;
	unsigned int count = 0;

	if (queue->end)
		return queue->end;
	int received = recvmmsg(queue->fd, queue->messages, most, MSG_WAITFORONE, NULL);
	nq_count(&queue->counters.receive_calls, 1);
	if (received < 0)
		return queue_take_failure(queue, errno);

	for (int i = 0; i < received; i++) {
		struct mmsghdr *message = &queue->messages[i];
		if (queue_take_datagram(queue, message, &packets[count]))
			count++;
		message->msg_hdr.msg_namelen = sizeof(struct sockaddr_nl);
	}
	return count ? (int)count : queue->end;
}

/* ---- reply ---- */

int nq_reply(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count)
{
	unsigned int done = 0;

	while (done < count) {
		unsigned int until = count - done > NQ_BURST_MAX ? done + NQ_BURST_MAX : count;
		size_t bytes = 0;

		for (; done < until; done++)
			if (packets[done].verdict != NQ_HOLD)
				bytes += nq_verdict_put(queue->verdicts + bytes, queue->number, &packets[done]);
		if (bytes == 0)
			continue;
		nq_count(&queue->counters.send_calls, 1);
		int error = queue_send(queue, queue->verdicts, bytes);
		if (error)
			return error;
	}
	return 0;
}

int nq_run(struct nq_queue *queue, nq_process_fn *process, void *context)
{
	struct nq_packet packets[NQ_BURST_DEFAULT];

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
