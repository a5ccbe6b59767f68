import COpenSSL
import Testing

@testable import TLS

/// Everybody can turn an ECDSA signature (r, s) into (r, n - s), which verifies too. The certificate then has
/// another SHA-256.
@Suite("The forms of a certificate that verify") struct FingerprintTests {
    @Test("are two under an authority with an elliptic curve, and each of them has both fingerprints")
    func twin() throws {
        let authority = try CertificateAuthority(days: 2)
        let made = try authority.sign(.peer(node: "three", hosts: []), days: 2)
        let shown = try certificate(made.certificatePEM)
        let issuer = try certificate(authority.certificatePEM())
        defer { for one in [shown, issuer] { X509_free(one) } }
        let twin = try #require(X509Fingerprint.twin(of: shown, issuer: issuer))
        defer { X509_free(twin) }
        #expect(X509_verify(twin, X509_get0_pubkey(issuer)) == 1)
        let (one, other) = (X509Fingerprint.of(shown), X509Fingerprint.of(twin))
        #expect(one.count == 32 && other.count == 32 && one != other)
        #expect(X509Fingerprint.forms(of: shown, issuer: issuer) == [one, other])
        #expect(X509Fingerprint.forms(of: twin, issuer: issuer) == [other, one])
        #expect(X509Fingerprint.forms(of: shown, issuer: nil) == [one])
    }

    private func certificate(_ pem: String) throws -> OpaquePointer {
        try #require(try PEMFile.certificates(Array(pem.utf8), of: "a test").first)
    }

    @Test("are one under an authority with RSA")
    func rsa() throws {
        let key = try #require(tidecast_RSA_generate(2048))
        defer { EVP_PKEY_free(key) }
        let made = try CertificateMaker.make(
            subject: "shop", key: key, issuer: nil, signer: key, days: 2, extensions: [])
        defer { X509_free(made) }
        #expect(X509Fingerprint.forms(of: made, issuer: made) == [X509Fingerprint.of(made)])
    }
}
