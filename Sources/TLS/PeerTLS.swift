import COpenSSL
import Synchronization

/// How a certificate says that it is a node's: by a URI among its alternative names (RFC 5280 §4.2.1.6),
/// `tidecast:node:NAME`, with all but the unreserved characters of RFC 3986 §2.3 percent-encoded. A DNS name
/// says nothing of the kind: it may be a host's.
public enum NodeCertificate {
    static let prefix = "tidecast:node:"

    public static func uri(of node: String) -> String { prefix + encoded(node) }

    /// The name as it stands in the URI.
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

    /// The nodes that a certificate names, encoded; none for one that all nodes share.
    static func nodes(of certificate: OpaquePointer) -> [String] {
        X509Names.uris(of: certificate).filter { $0.hasPrefix(prefix) }.map {
            String($0.dropFirst(prefix.count))
        }
    }
}

/// The PEM files with which a node meets the others.
public struct PeerFiles: Hashable, Sendable {
    public var certificate: CertificateFiles
    /// The authorities that it believes.
    public var authority: String

    public init(certificateFile: String, keyFile: String, authorityFile: String) {
        certificate = CertificateFiles(chain: certificateFile, key: keyFile)
        authority = authorityFile
    }

    var stamps: [FileStamp?] { certificate.stamps + [FileStamp.of(authority)] }
}

/// Both sides of TLS between the nodes of a cluster. Its files are read anew while it serves; connections
/// that stand go on as they are.
public final class PeerTLS: Sendable {
    private struct State {
        var context: TLSContext
        var nodes: [String]
        var notAfter: Int64
        var digest: [UInt8]
        var watch: CertificateWatch
    }

    public let files: PeerFiles
    private let node: String
    private let state: Mutex<State>

    /// Reads the files. A certificate that names nodes must name this one: all others would refuse it.
    public init(_ files: PeerFiles, node: String) throws(TLSError) {
        self.files = files
        self.node = node
        let watch = CertificateWatch(read: files.stamps)
        state = Mutex(try PeerTLS.read(files, node, watch))
    }

    /// What connections that begin now show and trust.
    public var context: TLSContext { state.withLock { $0.context } }
    /// Whether this node's certificate is its own, and not one that all share.
    public var isNamed: Bool { state.withLock { !$0.nodes.isEmpty } }
    /// When it ends, in seconds since 1970.
    public var notAfter: Int64 { state.withLock { $0.notAfter } }

    private static func read(
        _ files: PeerFiles, _ node: String, _ watch: CertificateWatch
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
        return State(
            context: context, nodes: nodes, notAfter: pair.notAfter,
            digest: pair.digest + CertificatePair.digest(authority), watch: watch)
    }

    /// Reads what is new, as `ServerTLS.look` does.
    public func look(
        isAsked: Bool = false, mistake: (_ keyFile: String) -> String? = { _ in nil }
    ) -> CertificateNews? {
        state.withLock { state in
            // Before they are read: what is written meanwhile shows in the next look.
            let stamps = files.stamps
            if isAsked {
                state.watch.begin(stamps)
            } else if !state.watch.look(stamps) {
                return nil
            }
            do throws(TLSError) {
                if let mistake = mistake(files.certificate.key) { throw TLSError(description: mistake) }
                let next = try PeerTLS.read(files, node, state.watch)
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
