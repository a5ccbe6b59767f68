#pragma once
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/pkcs12.h>
#include <openssl/x509v3.h>

// What OpenSSL offers as macros, which Swift does not import, as functions.
static inline long tidecast_SSL_CTX_set_mode(SSL_CTX *context, long mode) { return SSL_CTX_set_mode(context, mode); }
static inline int tidecast_SSL_CTX_set_min_proto_version(SSL_CTX *context, int version) {
    return SSL_CTX_set_min_proto_version(context, version);
}
static inline EVP_PKEY *tidecast_RSA_generate(unsigned int bits) { return EVP_RSA_gen(bits); }
static inline long tidecast_SSL_set_server_name(SSL *ssl, const char *name) { return SSL_set_tlsext_host_name(ssl, name); }
static inline long tidecast_SSL_CTX_set_session_cache_mode(SSL_CTX *context, long mode) {
    return SSL_CTX_set_session_cache_mode(context, mode);
}
static inline int tidecast_SSL_CTX_add1_chain_cert(SSL_CTX *context, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(context, certificate);
}
static inline void tidecast_SSL_CTX_set_app_data(SSL_CTX *context, void *data) { SSL_CTX_set_app_data(context, data); }
static inline void *tidecast_SSL_CTX_get_app_data(const SSL_CTX *context) { return SSL_CTX_get_app_data(context); }
static inline void tidecast_SSL_CTX_set_server_name_callback(SSL_CTX *context, int (*choose)(SSL *, int *, void *)) {
    SSL_CTX_set_tlsext_servername_callback(context, choose);
}
static inline void tidecast_SSL_set_proto_version(SSL *ssl, int version) {
    SSL_set_min_proto_version(ssl, version);
    SSL_set_max_proto_version(ssl, version);
}
static inline int tidecast_SSL_CTX_set1_groups_list(SSL_CTX *context, const char *groups) {
    return (int)SSL_CTX_set1_groups_list(context, groups);
}
static inline void tidecast_SSL_CTX_set_no_ticket(SSL_CTX *context) { SSL_CTX_set_options(context, SSL_OP_NO_TICKET); }
static inline int tidecast_EVP_MAC_CTX_set_sha256_key(EVP_MAC_CTX *context, const unsigned char *key, size_t count) {
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string("digest", (char *)"SHA256", 0),
        OSSL_PARAM_construct_octet_string("key", (void *)key, count),
        OSSL_PARAM_construct_end(),
    };
    return EVP_MAC_CTX_set_params(context, parameters);
}
static inline void tidecast_SSL_CTX_prefer_own_suites(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
}

// Keys of the curve P-256. The caller frees the key; NULL where libcrypto refuses the bytes.
static inline EVP_PKEY *tidecast_P256_from_parameters(int selection, OSSL_PARAM *parameters) {
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    EVP_PKEY *key = NULL;
    if (context == NULL) return NULL;
    if (EVP_PKEY_fromdata_init(context) != 1 || EVP_PKEY_fromdata(context, &key, selection, parameters) != 1) key = NULL;
    EVP_PKEY_CTX_free(context);
    return key;
}
static inline EVP_PKEY *tidecast_P256_public(const unsigned char *point, size_t count) {
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string("group", (char *)"prime256v1", 0),
        OSSL_PARAM_construct_octet_string("pub", (void *)point, count),
        OSSL_PARAM_construct_end(),
    };
    return tidecast_P256_from_parameters(EVP_PKEY_PUBLIC_KEY, parameters);
}
// `scalar` has 32 bytes in the machine's order, as OSSL_PARAM wants numbers.
static inline EVP_PKEY *tidecast_P256_pair(
    const unsigned char *scalar, const unsigned char *point, size_t pointCount) {
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string("group", (char *)"prime256v1", 0),
        OSSL_PARAM_construct_BN("priv", (unsigned char *)scalar, 32),
        OSSL_PARAM_construct_octet_string("pub", (void *)point, pointCount),
        OSSL_PARAM_construct_end(),
    };
    return tidecast_P256_from_parameters(EVP_PKEY_KEYPAIR, parameters);
}
static inline EVP_PKEY *tidecast_P256_generate(void) { return EVP_EC_gen("P-256"); }
// Begins an ECDSA signature with SHA-256 whose nonce follows from key and message (RFC 6979). libcrypto has the
// parameter since 3.2; an older one ignores the parameter and takes a random nonce.
static inline int tidecast_ES256_sign_init(EVP_MD_CTX *context, EVP_PKEY *key) {
    unsigned int deterministic = 1;
    OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_uint("nonce-type", &deterministic),
        OSSL_PARAM_construct_end(),
    };
    return EVP_DigestSignInit_ex(context, NULL, "SHA256", NULL, NULL, key, parameters);
}
static inline void tidecast_OPENSSL_free(void *memory) { OPENSSL_free(memory); }
