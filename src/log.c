/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Messages. Each is one write(2), so that lines of several threads or processes do not mix. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool log_verbose;

void log_set_verbose(bool verbose)
{
	log_verbose = verbose;
}

__attribute__((format(printf, 2, 0))) static void log_write(const char *prefix, const char *format, va_list arguments)
{
	char line[1024];
	size_t length = (size_t)snprintf(line, sizeof(line) - 1, "%s", prefix);
	int added = vsnprintf(line + length, sizeof(line) - 1 - length, format, arguments);

	if (added < 0)
		return;
	length = strlen(line); /* a longer line was cut */
	line[length] = '\n';
	/* There is nowhere to report that stderr is gone. */
	if (write(STDERR_FILENO, line, length + 1) < 0)
		return;
}

void log_error(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	log_write("nfq-noop: ", format, arguments);
	va_end(arguments);
}

void log_warning(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	log_write("nfq-noop: warning: ", format, arguments);
	va_end(arguments);
}

void log_detail(const char *format, ...)
{
	va_list arguments;

	if (!log_verbose)
		return;
	va_start(arguments, format);
	log_write("nfq-noop: ", format, arguments);
	va_end(arguments);
}

void log_line(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	log_write("", format, arguments);
	va_end(arguments);
}
