import COpenSSL
import Synchronization

/// How a certificate names its node: by a URI among its alternative names (RFC 5280 §4.2.1.6),
/// `tidecast:node:NAME`, in which all but the unreserved characters of RFC 3986 §2.3 are percent-encoded. A
/// DNS name does not name a node, because it may be a host's.
public enum NodeCertificate {
    static let prefix = "tidecast:node:"

    public static func uri(of node: String) -> String { prefix + encoded(node) }

    /// The node's name, encoded as in the URI.
    public static func encoded(_ node: String) -> String {
        let plain = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~".utf8)
        let digits = Array("0123456789ABCDEF".utf8)
        var out: [UInt8] = []
        for byte in node.utf8 {
            if plain.contains(byte) {
                out.append(byte)
            } else {
                out += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: out, as: UTF8.self)
    }

    /// The nodes that a certificate names, encoded; empty for a certificate that all nodes share.
    static func nodes(of certificate: OpaquePointer) -> [String] {
        X509Names.uris(of: certificate).filter { $0.hasPrefix(prefix) }.map {
            String($0.dropFirst(prefix.count))
        }
    }
}

/// The PEM files for a node's connections with other nodes.
public struct PeerFiles: Hashable, Sendable {
    public var certificate: CertificateFiles
    /// The file of the authorities that the node trusts.
    public var authority: String

    public init(certificateFile: String, keyFile: String, authorityFile: String) {
        certificate = CertificateFiles(chain: certificateFile, key: keyFile)
        authority = authorityFile
    }

    var stamps: [FileStamp?] { certificate.stamps + [FileStamp.of(authority)] }
}

/// Both sides of TLS between the nodes of a cluster. A running node reads the files again when they change;
/// open connections keep the old ones.
public final class PeerTLS: Sendable {
    private struct State {
        var context: TLSContext
        var nodes: [String]
        var notAfter: Int64
        var fingerprints: [[UInt8]]
        var digest: [UInt8]
        var watch: CertificateWatch
    }

    public let files: PeerFiles
    private let node: String
    private let state: Mutex<State>

    /// Reads the files. A certificate that names nodes must name this node: all other nodes would refuse it.
    public init(_ files: PeerFiles, node: String) throws(TLSError) {
        self.files = files
        self.node = node
        let watch = CertificateWatch(read: files.stamps)
        state = Mutex(try PeerTLS.read(files, node, watch: watch))
    }

    /// The context for connections that begin now.
    public var context: TLSContext { state.withLock { $0.context } }
    /// Whether the certificate names this node, and is not one that all nodes share.
    public var isNamed: Bool { state.withLock { !$0.nodes.isEmpty } }
    /// When the certificate ends, in seconds since 1970.
    public var notAfter: Int64 { state.withLock { $0.notAfter } }

    /// The SHA-256 of each DER form of the certificate that other nodes take for it, the file's own first.
    public var fingerprints: [[UInt8]] { state.withLock { $0.fingerprints } }

    private static func read(
        _ files: PeerFiles, _ node: String, watch: CertificateWatch
    ) throws(TLSError) -> State {
        let pair = try CertificatePair(files.certificate)
        let authority = try PEMFile.contents(of: files.authority)
        let nodes = NodeCertificate.nodes(of: pair.certificates[0])
        guard nodes.isEmpty || nodes.contains(NodeCertificate.encoded(node)) else {
            throw TLSError(
                description:
                    "\(files.certificate.chain) is the certificate of \(nodes.joined(separator: ", ")),"
                    + " and this node is \(node)")
        }
        let context = try TLSContext(pair, authorityFile: files.authority)
        let authorities = try PEMFile.certificates(authority, of: files.authority)
        defer { authorities.forEach { X509_free($0) } }
        var forms = [X509Fingerprint.of(pair.certificates[0])]
        for issuer in authorities + pair.certificates.dropFirst() {
            forms += X509Fingerprint.forms(of: pair.certificates[0], issuer: issuer).dropFirst()
        }
        return State(
            context: context, nodes: nodes, notAfter: pair.notAfter, fingerprints: forms,
            digest: pair.digest + CertificatePair.digest(authority), watch: watch)
    }

    /// Reads changed files, as `ServerTLS.look` does.
    public func look(
        isAsked: Bool = false, mistake: (_ keyFile: String) -> String? = { _ in nil }
    ) -> CertificateNews? {
        state.withLock { state in
            // The stamps are from before the read, so the next look notices a write during the read.
            let stamps = files.stamps
            if isAsked {
                state.watch.noteRead(stamps)
            } else if !state.watch.look(stamps) {
                return nil
            }
            do throws(TLSError) {
                if let mistake = mistake(files.certificate.key) { throw TLSError(description: mistake) }
                let next = try PeerTLS.read(files, node, watch: state.watch)
                let isNew = next.digest != state.digest
                if isNew { state = next }
                guard isNew || isAsked else { return nil }
                return CertificateNews(files: files.certificate, outcome: isNew ? .taken : .unchanged)
            } catch {
                return CertificateNews(
                    files: files.certificate, outcome: .refused(reason: error.description))
            }
        }
    }
}
