import Bytes
import Model
import TLS

/// The proofs that a node demands of the other end of a connection.
public struct PeerTrust: Sendable {
    let key: GreetingKey
    /// Whether the node refuses a certificate that names no node.
    let wantsNames: @Sendable () -> Bool
    let refused: RefusedCertificates

    public init(
        key: GreetingKey, wantsNames: @escaping @Sendable () -> Bool = { false },
        refused: RefusedCertificates = RefusedCertificates([])
    ) {
        self.key = key
        self.wantsNames = wantsNames
        self.refused = refused
    }
}

/// Proves in a greeting that an end has the cluster's gossip key, which is in the database.
public struct GreetingKey: Sendable {
    private let seal: MessageSeal

    /// Derives the key by HKDF (RFC 5869), so that it is not the key that seals datagrams. `nil` if
    /// libcrypto fails.
    public init?(gossipKey: [UInt8], cluster: [UInt8]) {
        guard
            let seal = MessageSeal(
                secret: gossipKey, salt: cluster, info: Array("tidecast greeting 1".utf8))
        else { return nil }
        self.seal = seal
    }

    /// Covers the side that proves, the whole of both greetings with their nonces, and the channel.
    func proof(
        of side: Greeting.Side, connecting: [UInt8], listening: [UInt8], channel: [UInt8]
    ) -> [UInt8] { seal.tag(GreetingKey.words(side, connecting, listening: listening, channel: channel)) }

    func isGood(
        _ proof: [UInt8], of side: Greeting.Side, connecting: [UInt8], listening: [UInt8], channel: [UInt8]
    ) -> Bool {
        seal.isGood(proof, of: GreetingKey.words(side, connecting, listening: listening, channel: channel))
    }

    private static func words(
        _ side: Greeting.Side, _ connecting: [UInt8], listening: [UInt8], channel: [UInt8]
    ) -> [UInt8] {
        var out = ByteWriter(capacity: connecting.count + listening.count + 64)
        out.u8(side.rawValue)
        for part in [connecting, listening, channel] { out.string(part) }
        return out.bytes
    }
}

/// How two ends find out who the other end is, before any other frame.
///
/// Both ends greet at once. Then each end proves that it has the cluster's key. The proof covers the nonces
/// of both ends, which are new for each connection, and the side that proves. So a proof from another
/// connection, or one that the other side sends back, proves nothing. With TLS the proof also covers the
/// connection's exporter (RFC 9266): an attacker in the middle with a certificate of the cluster cannot pass
/// a proof on.
///
/// No I/O: frames go in, and the next step comes out.
struct Greeting {
    enum Side: UInt8, Sendable {
        case connecting = 1
        case listening = 2

        var other: Side { self == .connecting ? .listening : .connecting }
    }

    /// The TLS values of the connection at the moment when the other side has greeted.
    struct Channel: Sendable {
        /// A value that no other connection has (RFC 9266); empty without TLS.
        var binding: [UInt8] = []
        /// The nodes that the other side's certificate names; `nil` without TLS.
        var nodes: [String]?
        /// The certificate of the other side in each form that would be taken; empty without TLS.
        var certificates: [CertificateFingerprint] = []
    }

    enum Step {
        /// Send this proof, and wait for the proof of the other side.
        case prove([UInt8])
        /// The greeting is over, and the other side is this process.
        case done(PeerIdentity)
    }

    /// Why this side ends the connection, as a sentence.
    struct Refusal: Error, Hashable {
        var reason: String
        /// Whether an operator has refused the other side's certificate.
        var isOfCertificate = false
        init(_ reason: String) { self.reason = reason }
        init(_ certificate: CertificateFingerprint, of node: String) {
            reason = RefusedCertificates.sentence(node, certificate)
            isOfCertificate = true
        }
    }

    static let nonceBytes = 32
    /// The most bytes of a refusal's sentence that the other side gets.
    static let refusalBytesMax = 400

    private let identity: PeerIdentity
    private let side: Side
    /// The process id that the connecting side wants to reach.
    private let expected: ProcessID?
    private let trust: PeerTrust
    /// This side's greeting, encoded.
    let words: [UInt8]
    private var claimed: (peer: PeerIdentity, words: [UInt8], binding: [UInt8])?
    /// The dialect in which both ends write frames from now on.
    private(set) var dialect = Dialect.greeting

    init(_ identity: PeerIdentity, _ side: Side, expected: ProcessID?, trust: PeerTrust) {
        self.identity = identity
        self.side = side
        self.expected = expected
        self.trust = trust
        words = identity.encoded
    }

    mutating func hear(
        _ kind: Frame.Kind, _ payload: [UInt8], channel: @autoclosure () -> Channel
    ) throws(Refusal) -> Step {
        guard let claimed else {
            guard kind == .hello, let hello = PeerIdentity(decoding: payload) else {
                throw Refusal("a connection to the peer port did not greet")
            }
            return try greeted(hello, payload, channel: channel())
        }
        switch kind {
        case .proof:
            let (connecting, listening) = transcript(claimed.words)
            guard
                trust.key.isGood(
                    payload, of: side.other, connecting: connecting, listening: listening,
                    channel: claimed.binding)
            else { throw Refusal("node \(claimed.peer.name) does not prove that it has this cluster's key") }
            return .done(claimed.peer)
        case .hello: throw Refusal("\(claimed.peer.name) greeted twice")
        case .data, .ping, .pong, .refusal:
            throw Refusal(
                "node \(claimed.peer.name) sends frames and does not prove that it has this cluster's key")
        }
    }

    private mutating func greeted(
        _ hello: PeerIdentity, _ payload: [UInt8], channel: Channel
    ) throws(Refusal) -> Step {
        guard hello.cluster == identity.cluster else {
            throw Refusal(
                "node \(hello.name) is of another cluster: check the database and the addresses of both")
        }
        if let expected, hello.processID != expected {
            // A new process has the address; the database will say so soon.
            throw Refusal("node \(hello.name) has been started again")
        }
        guard let common = Dialect.common(identity, hello) else {
            throw Refusal(
                "no version of frames is common: \(identity.speech), \(hello.speech); upgrade from one"
                    + " version to the next in steps")
        }
        dialect = common
        if let refusal = StoredRules.refusal(of: "node \(hello.name) is", hello.rules, here: identity.rules) {
            throw Refusal(refusal)
        }
        if let certificate = trust.refused.find(channel.certificates) {
            throw Refusal(certificate, of: hello.name)
        }
        if let nodes = channel.nodes { try check(nodes, of: hello.name) }
        claimed = (hello, payload, channel.binding)
        let (connecting, listening) = transcript(payload)
        return .prove(
            trust.key.proof(
                of: side, connecting: connecting, listening: listening, channel: channel.binding))
    }

    /// Refuses the certificate of another node than the one that the greeting names.
    private func check(_ nodes: [String], of name: String) throws(Refusal) {
        if nodes.isEmpty, trust.wantsNames() {
            throw Refusal(
                "node \(name) shows a certificate that names no node: give the node a certificate of its own"
                    + " (`tidecast cert sign`), or let nodes share one (--allow-shared-peer-cert)")
        }
        guard nodes.isEmpty || nodes.contains(NodeCertificate.encoded(name)) else {
            throw Refusal("node \(name) shows the certificate of \(nodes.joined(separator: ", "))")
        }
    }

    private func transcript(_ theirs: [UInt8]) -> (connecting: [UInt8], listening: [UInt8]) {
        side == .connecting ? (words, theirs) : (theirs, words)
    }

    /// The sentence of the other side's refusal, without control characters, fit for a log.
    static func sentence(_ payload: [UInt8]) -> String {
        let text = String(decoding: payload.prefix(refusalBytesMax), as: UTF8.self)
        return String(
            text.map { $0.isNewline || $0.asciiValue.map { $0 < 0x20 || $0 == 0x7F } == true ? " " : $0 })
    }
}
