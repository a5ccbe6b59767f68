#pragma once
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>  // not part of Swift's Glibc module
#include <stdio.h>

// The name that the DNS has for an IPv4 address, past the hosts file: 1, 0 where it has none, -1 where it does not answer.
static inline int name_by_dns(struct in_addr address, char *name, int size) {
  const unsigned char *bytes = (const unsigned char *)&address;
  char question[64];
  unsigned char answer[4096];
  ns_msg message;
  ns_rr record;
  snprintf(question, sizeof question, "%d.%d.%d.%d.in-addr.arpa", bytes[3], bytes[2], bytes[1], bytes[0]);
  int length = res_query(question, ns_c_in, ns_t_ptr, answer, sizeof answer);
  if (length < 0 && h_errno == TRY_AGAIN) return -1;
  if (length < 0 || ns_initparse(answer, length, &message) < 0) return 0;
  for (int number = 0; number < ns_msg_count(message, ns_s_an); number += 1) {
    if (ns_parserr(&message, ns_s_an, number, &record) < 0) return 0;
    if (ns_rr_type(record) == ns_t_ptr)
      return dn_expand(ns_msg_base(message), ns_msg_end(message), ns_rr_rdata(record), name, size) > 0;
  }
  return 0;
}
