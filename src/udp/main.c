/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp.h"

static const char usage[] =
	"usage: nfq-udp -s [-B ADDRESS] [-p PORT]\n"
	"       nfq-udp -c ADDRESS [-p PORT] [-r PPS] [-l BYTES] [-g SEGMENTS] [-t SECONDS]\n"
	"\n"
	"Sends UDP datagrams at a rate and accounts for each: a measurement of nfq-bench.\n"
	"\n"
	"  -s           receive from one sender, then end\n"
	"  -c ADDRESS   send to the receiver there, and print what became of it as JSON\n"
	"  -p PORT      of both the datagrams and the connection beside them   5201\n"
	"  -r PPS       datagrams a second                                      10000\n"
	"  -l BYTES     of payload in each, 16 to 2048                          64\n"
	"  -g SEGMENTS  that the kernel is handed at once (UDP_SEGMENT)         1\n"
	"  -t SECONDS   how long, at most 3600                                  2\n"
	"\n"
	"Exit status: 0 ok (datagrams may have been lost), 1 failed, 2 usage.\n";

noreturn void udp_fail(int error, const char *format, ...)
{
	va_list arguments;

	fputs("nfq-udp: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "%s%s\n", error ? ": " : "", error ? strerror(error) : "");
	exit(EXIT_FAILURE);
}

int udp_socket_open(const struct udp_options *options, int type, int is_receiver)
{
	const struct addrinfo hints = { .ai_socktype = type,
					.ai_flags = (is_receiver ? AI_PASSIVE : 0) | AI_NUMERICHOST };
	struct addrinfo *found;
	int yes = 1;
	int code;
	int socket_fd;

	code = getaddrinfo(options->address, options->port, &hints, &found);
	if (code)
		udp_fail(0, "%s: not an address: %s", options->address ? options->address : options->port,
			 gai_strerror(code));
	socket_fd = socket(found->ai_family, type | SOCK_CLOEXEC, 0);
	if (socket_fd < 0)
		udp_fail(errno, "no socket");
	if (is_receiver)
		setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	code = is_receiver ? bind(socket_fd, found->ai_addr, found->ai_addrlen) :
			     connect(socket_fd, found->ai_addr, found->ai_addrlen);
	if (code < 0)
		udp_fail(errno, "cannot %s port %s of %s", is_receiver ? "bind" : "connect to", options->port,
			 options->address ? options->address : "any address");
	freeaddrinfo(found);
	return socket_fd;
}

void udp_line_write(int control, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vdprintf(control, format, arguments);
	va_end(arguments);
	if (length < 0)
		udp_fail(errno, "the connection beside the datagrams broke");
}

char *udp_line_read(int control, char line[static UDP_LINE])
{
	size_t length = 0;

	while (length < UDP_LINE - 1 && read(control, line + length, 1) == 1)
		if (line[length++] == '\n') {
			line[length - 1] = '\0';
			return line;
		}
	return NULL;
}

static uint64_t number_parse(char option, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	unsigned long long number;

	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || number < least || number > most) {
		fprintf(stderr, "nfq-udp: -%c %s: should be a number from %llu to %llu\n", option, text,
			(unsigned long long)least, (unsigned long long)most);
		exit(2);
	}
	return number;
}

static void option_take(struct udp_options *options, int option, int *is_receiver)
{
	switch (option) {
	case 's':
		*is_receiver = 1;
		break;
	case 'c':
		*is_receiver = 0;
		options->address = optarg;
		break;
	case 'B':
		options->address = optarg;
		break;
	case 'p':
		number_parse('p', optarg, 1, 65535);
		options->port = optarg;
		break;
	case 'r':
		options->pps = number_parse('r', optarg, 1, 100000000);
		break;
	case 'l':
		options->bytes = (unsigned int)number_parse('l', optarg, sizeof(struct udp_mark), 2048);
		break;
	case 'g':
		options->segments = (unsigned int)number_parse('g', optarg, 1, 64);
		break;
	case 't':
		options->seconds = (unsigned int)number_parse('t', optarg, 1, UDP_SECONDS_MOST);
		break;
	case 'h':
		fputs(usage, stdout);
		exit(EXIT_SUCCESS);
	default:
		fputs("nfq-udp: -h tells the options\n", stderr);
		exit(2);
	}
}

int main(int argc, char *argv[])
{
	static const struct option words[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	struct udp_options options = { .port = "5201", .pps = 10000, .bytes = 64, .segments = 1, .seconds = 2 };
	int option;
	int is_receiver = -1;

	while ((option = getopt_long(argc, argv, "sc:B:p:r:l:g:t:h", words, NULL)) != -1)
		option_take(&options, option, &is_receiver);
	if (is_receiver < 0 || optind < argc || options.bytes * options.segments > 65000) {
		fputs(optind < argc   ? "nfq-udp: one argument too many\n" :
		      is_receiver < 0 ? "nfq-udp: either -s or -c ADDRESS (-h tells more)\n" :
					"nfq-udp: -l times -g: at most 65000 bytes at once\n",
		      stderr);
		return 2;
	}
	return is_receiver ? udp_receive(&options) : udp_send(&options);
}
