/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opening, adopting and closing a queue: its socket, its buffers, its configuration.
 *
 * Everything is allocated here. The socket is connected to the kernel, which then lets nobody else send to it.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define OPEN_ANSWER_TIMEOUT_MS 2000

void nq_verdicts_prepare(struct nq_queue *queue, unsigned int count)
{
	for (; queue->verdicts_prepared < count; queue->verdicts_prepared++)
		nq_verdict_init(&queue->verdicts[queue->verdicts_prepared], queue->number);
}

static int open_allocate(struct nq_queue *queue)
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
	nq_verdicts_prepare(queue, queue->burst);
	return 0;
}

static int open_socket(struct nq_queue *queue)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK }; /* the kernel, and any address of our own */
	int one = 1;

	queue->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	if (queue->fd < 0)
		return -errno;
	if (bind(queue->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	if (connect(queue->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	/* Optional: refused verdicts come back without their own bytes, which leaves more room for packets. */
	setsockopt(queue->fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	return 0;
}

static int open_ask_rcvbuf(struct nq_queue *queue, uint32_t bytes)
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
static int open_size(struct nq_queue *queue, const struct nq_config *config)
{
	uint32_t length = config->maxlen ? config->maxlen : NQ_MAXLEN_DEFAULT;
	uint32_t bytes = config->rcvbuf_bytes ? config->rcvbuf_bytes : nq_rcvbuf_bytes(length, config->copy_bytes);
	int error = open_ask_rcvbuf(queue, bytes);

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

/*
 * Waits for the answer to the bind. A packet that comes before it proves the bind as well, and is left in the socket;
 * so is the acknowledgement behind it, which nq_receive() ignores.
 */
static int open_await_bound(struct nq_queue *queue)
{
	_Alignas(struct nlmsghdr) char head[256];
	struct pollfd pollfd = { .fd = queue->fd, .events = POLLIN };
	struct nq_packet packet;
	struct nq_answer answer;

	int ready;
	do
		ready = poll(&pollfd, 1, OPEN_ANSWER_TIMEOUT_MS);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		return ready < 0 ? -errno : -ETIMEDOUT;
	ssize_t bytes = recv(queue->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	if (bytes < 0)
		return errno == ENOBUFS ? 0 : -errno; /* overrun by packets: bound */
	if (nq_message_parse(head, (size_t)bytes, MSG_TRUNC, &packet, &answer) != NQ_MESSAGE_ANSWER)
		return 0;
	if (recv(queue->fd, head, sizeof(head), MSG_DONTWAIT) < 0)
		return -errno;
	return answer.error;
}

static bool open_may_administer(void)
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
static int open_explain_refusal(const struct nq_queue *queue, int error)
{
	struct nq_status status;

	if (error == -EPERM && queue->status_fd >= 0 && open_may_administer() &&
	    nq_status_find(queue->status_fd, queue->number, &status) == 0)
		return -EBUSY;
	if (error == -EINVAL && queue->status_fd == -EPROTONOSUPPORT)
		return -EPROTONOSUPPORT;
	return error;
}

/* The kernel acknowledges a copy mode that it does not know, and then drops everything. */
static int open_verify(const struct nq_queue *queue)
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

static int open_bind(struct nq_queue *queue, const struct nq_config *config)
{
	_Alignas(struct nlmsghdr) char message[NQ_CONFIG_BYTES_MAX];
	struct nq_config sized = *config;

	sized.maxlen = queue->maxlen;
	int error = nq_send(queue, message, nq_config_put_bind(message, &sized));
	if (!error)
		error = open_await_bound(queue);
	/* Only now: the message may have made the kernel load the module that provides the file. */
	queue->status_fd = nq_status_open();
	return error ? open_explain_refusal(queue, error) : open_verify(queue);
}

/* Everything but the socket; what is half made is freed by nq_close(). */
static int open_make(struct nq_queue **queue, const struct nq_config *config)
{
	*queue = NULL;
	int error = nq_config_validate(config);
	if (error)
		return error;
	struct nq_queue *made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	*made = (struct nq_queue){
		.fd = -EBADF,
		.status_fd = -EBADF,
		.number = config->queue,
		.burst = config->burst,
		.flags = config->flags,
		.copy_bytes = config->copy_bytes,
		.spin_ns = (int64_t)config->spin_us * 1000,
	};
	error = open_allocate(made);
	if (error)
		nq_close(made);
	else
		*queue = made;
	return error;
}

int nq_open(struct nq_queue **queue, const struct nq_config *config)
{
	struct nq_queue *opened;

	*queue = NULL;
	int error = open_make(&opened, config);
	if (error)
		return error;
	error = open_socket(opened);
	if (!error)
		error = open_size(opened, config);
	if (!error)
		error = open_bind(opened, config);
	if (error) {
		nq_close(opened);
		return error;
	}
	opened->origin_is_known = true; /* there was nothing before */
	*queue = opened;
	return 0;
}

/* ---- adopt ---- */

static bool open_is_netfilter_socket(int fd)
{
	int domain = 0;
	int protocol = 0;
	socklen_t length = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_NETLINK &&
	       getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) == 0 && protocol == NETLINK_NETFILTER;
}

/* Is the queue this socket's? Where /proc cannot be read the kernel's answer will tell. */
static int open_check_owner(const struct nq_queue *queue, struct nq_status *status)
{
	if (queue->status_fd < 0)
		return 0;
	int error = nq_status_find(queue->status_fd, queue->number, status);
	if (error)
		return error == -ENOENT ? -ENODEV : error;
	return status->portid == nq_portid(queue) ? 0 : -ENODEV;
}

static void open_go_on(struct nq_queue *queue, const struct nq_handover *handover)
{
	if (!handover->is_known) {
		queue->orphans = true;
		return;
	}
	queue->last_id = handover->last_id;
	queue->counters = handover->counters;
	queue->answers_lost = handover->answers_lost;
	queue->origin = (struct nq_origin){
		.ids_skipped = handover->ids_skipped,
		.socket_drops = handover->socket_drops,
		.user_dropped = handover->user_dropped,
	};
	queue->origin_is_known = true;
}

static int open_adopt(struct nq_queue *queue, const struct nq_config *config)
{
	_Alignas(struct nlmsghdr) char message[NQ_CONFIG_BYTES_MAX];
	struct nq_config sized = *config;
	struct nq_status status = { 0 };
	struct timespec now;

	int error = open_check_owner(queue, &status);
	if (!error)
		error = open_size(queue, config);
	if (error)
		return error;
	clock_gettime(CLOCK_MONOTONIC, &now);
	queue->adopt_sequence = NQ_SEQUENCE_ADOPT | (uint32_t)(now.tv_nsec ^ now.tv_sec);
	queue->adopt_id = status.id_sequence;
	sized.maxlen = queue->maxlen;
	return nq_send(queue, message, nq_config_put_change(message, &sized, queue->adopt_sequence));
}

int nq_adopt(struct nq_queue **queue, const struct nq_config *config, const struct nq_handover *handover)
{
	struct nq_queue *adopted;

	*queue = NULL;
	if (!open_is_netfilter_socket(handover->socket))
		return -ENOTSOCK;
	int error = open_make(&adopted, config);
	if (error)
		return error;
	adopted->fd = handover->socket;
	adopted->status_fd = handover->status >= 0 ? handover->status : nq_status_open();
	open_go_on(adopted, handover);
	error = open_adopt(adopted, config);
	if (error) {
		/* The descriptors stay the caller's. */
		adopted->fd = -EBADF;
		if (handover->status >= 0)
			adopted->status_fd = -EBADF;
		nq_close(adopted);
		return error;
	}
	*queue = adopted;
	return 0;
}

void nq_handover_read(const struct nq_queue *queue, struct nq_handover *handover)
{
	*handover = (struct nq_handover){
		.socket = queue->fd,
		.status = queue->status_fd,
		.queue = queue->number,
		.is_known = queue->origin_is_known,
		.last_id = queue->last_id,
		.ids_skipped = queue->origin.ids_skipped,
		.socket_drops = queue->origin.socket_drops,
		.user_dropped = queue->origin.user_dropped,
		.answers_lost = queue->answers_lost,
		.counters = queue->counters,
	};
}

void nq_close(struct nq_queue *queue)
{
	if (!queue)
		return;
	if (queue->fd >= 0)
		close(queue->fd); /* which unbinds, unless somebody else holds it too */
	if (queue->status_fd >= 0)
		close(queue->status_fd);
	free(queue->marked_verdicts);
	free(queue->verdicts);
	free(queue->buffers);
	free(queue->iovecs);
	free(queue->messages);
	free(queue);
}
