/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A packet goes on whole whatever part of it was copied, and its true length is told. */
#include "kernel.h"

enum { BYTES = 60000, LENGTH = BYTES + 28 };

static struct nq_packet pass_one(uint32_t copy_bytes, size_t bytes, bool *whole)
{
	static char received[65000];
	struct nq_packet packet = { 0 };
	struct nq_config config;

	nq_config_init(&config, 0);
	config.copy_bytes = copy_bytes;
	struct nq_queue *queue = kernel_open_queue(&config);
	int receiver = kernel_open_receiver();

	kernel_send(0, 1, bytes);
	if (nq_receive(queue, &packet, 1) != 1 || nq_reply(queue, &packet, 1) < 0)
		bail_out("receive or reply");
	*whole = recv(receiver, received, sizeof(received), 0) == (ssize_t)bytes;
	close(receiver);
	nq_close(queue);
	return packet;
}

int main(void)
{
	struct nq_packet packet;
	bool whole;

	kernel_start();
	packet = pass_one(NQ_COPY_FULL, BYTES, &whole);
	is(packet.payload_bytes, LENGTH, "a full copy is the whole packet of 60 KB");
	is(packet.length_bytes, LENGTH, "whose length it is");
	ok(whole, "it arrives whole");

	packet = pass_one(128, BYTES, &whole);
	is(packet.payload_bytes, 128, "a short copy is as long as asked for");
	is(packet.length_bytes, LENGTH, "with the true length beside it");
	ok(whole, "the packet arrives whole");

	packet = pass_one(128, 50, &whole);
	is(packet.payload_bytes, 78, "a packet shorter than that is copied whole");
	is(packet.length_bytes, 78, "with its own length");

	packet = pass_one(1, BYTES, &whole);
	is(packet.payload_bytes, 1, "one byte can be copied");
	ok(whole, "the packet arrives whole");

	packet = pass_one(NQ_COPY_META, BYTES, &whole);
	ok(!packet.payload && !packet.payload_bytes, "metadata comes without payload");
	is(packet.length_bytes, 0, "and without a length");
	ok(whole, "the packet arrives whole");
	return done_testing();
}
