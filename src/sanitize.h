/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Was this built with a sanitizer? Its runtime needs larger stacks, and makes system calls of its own. */
#ifndef SANITIZE_H
#define SANITIZE_H

#ifndef __has_feature /* gcc 12 */
#define __has_feature(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
	__has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#endif
