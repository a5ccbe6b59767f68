import Journal
import TLS

/// What a node demands of whoever is at the other end of a connection.
public struct PeerTrust: Sendable {
    let key: GreetingKey
    /// Whether the process of that life may leave the proof out: one of a former build, as the database
    /// shows.
    let mayOmitProof: @Sendable (_ life: UInt32) -> Bool
    /// Whether a certificate that names no node is not enough.
    let wantsNames: @Sendable () -> Bool

    public init(
        key: GreetingKey, wantsNames: @escaping @Sendable () -> Bool = { false },
        mayOmitProof: @escaping @Sendable (_ life: UInt32) -> Bool
    ) {
        self.key = key
        self.wantsNames = wantsNames
        self.mayOmitProof = mayOmitProof
    }
}

/// What proves in a greeting that an end has the cluster's gossip key, which the database keeps.
public struct GreetingKey: Sendable {
    private let seal: MessageSeal

    /// Another key than the one that seals datagrams, by HKDF (RFC 5869). `nil` where libcrypto fails.
    public init?(gossipKey: [UInt8], cluster: [UInt8]) {
        guard
            let seal = MessageSeal(
                secret: gossipKey, salt: cluster, info: Array("tidecast greeting 1".utf8))
        else { return nil }
        self.seal = seal
    }

    /// Over the whole of both greetings, in which the nonces stand, the side that proves, and the channel.
    func proof(
        of side: Greeting.Side, connecting: [UInt8], listening: [UInt8], channel: [UInt8]
    ) -> [UInt8] { seal.tag(GreetingKey.words(side, connecting, listening, channel)) }

    func isGood(
        _ proof: [UInt8], of side: Greeting.Side, connecting: [UInt8], listening: [UInt8], channel: [UInt8]
    ) -> Bool { seal.isGood(proof, of: GreetingKey.words(side, connecting, listening, channel)) }

    private static func words(
        _ side: Greeting.Side, _ connecting: [UInt8], _ listening: [UInt8], _ channel: [UInt8]
    ) -> [UInt8] {
        var out = ByteWriter(capacity: connecting.count + listening.count + 64)
        out.u8(side.rawValue)
        for part in [connecting, listening, channel] { out.string(part) }
        return out.bytes
    }
}

/// How two ends find out who the other is, before anything else is said.
///
/// Both greet at once. Since version 3 of frames each then proves that it has the cluster's key, over the
/// nonces of both, which are new for each connection: so a proof that was heard elsewhere, or comes back from
/// the other side, proves nothing. With TLS the connection's exporter is in it (RFC 9266): who sits in the
/// middle with a certificate of the cluster cannot hand a proof on.
///
/// No I/O: what came goes in, what is to be done comes out.
struct Greeting {
    enum Side: UInt8, Sendable {
        case connecting = 1
        case listening = 2

        var other: Side { self == .connecting ? .listening : .connecting }
    }

    /// What is known of the connection when the other side has greeted.
    struct Channel: Sendable {
        /// What no other connection has (RFC 9266); empty without TLS.
        var binding: [UInt8] = []
        /// The nodes that the other side's certificate names; `nil` without TLS.
        var nodes: [String]?
    }

    enum Step {
        /// Send the proof, and wait for the other side's.
        case prove([UInt8])
        /// It is who it says.
        case done(PeerIdentity)
    }

    /// Why this ends; a sentence.
    struct Refusal: Error, Hashable {
        var reason: String
        init(_ reason: String) { self.reason = reason }
    }

    static let nonceBytes = 32
    /// Bytes of a sentence that is told to the other side.
    static let refusalBytesMax = 400

    private let identity: PeerIdentity
    private let side: Side
    /// Whom the connecting side wants to reach.
    private let expected: UInt32?
    private let trust: PeerTrust
    /// What this side greets with.
    let words: [UInt8]
    private var heard: (peer: PeerIdentity, words: [UInt8], binding: [UInt8])?
    /// How frames are written and read from now on.
    private(set) var dialect = Dialect.greeting

    init(_ identity: PeerIdentity, _ side: Side, expected: UInt32?, trust: PeerTrust) {
        self.identity = identity
        self.side = side
        self.expected = expected
        self.trust = trust
        words = identity.encoded
    }

    /// The name that the other side goes by, as far as it has said one.
    var name: String? { heard?.peer.name }

    mutating func hear(
        _ kind: Frame.Kind, _ payload: [UInt8], channel: @autoclosure () -> Channel
    ) throws(Refusal) -> Step {
        guard let heard else {
            guard kind == .hello, let hello = PeerIdentity(decoding: payload) else {
                throw Refusal("a connection to the peer port did not greet")
            }
            return try greeted(hello, payload, channel())
        }
        switch kind {
        case .proof:
            let (connecting, listening) = transcript(heard.words)
            guard
                trust.key.isGood(
                    payload, of: side.other, connecting: connecting, listening: listening,
                    channel: heard.binding)
            else { throw Refusal("node \(heard.peer.name) does not prove that it has this cluster's key") }
            return .done(heard.peer)
        case .hello: throw Refusal("\(heard.peer.name) greeted twice")
        case .data, .ping, .pong, .refusal:
            throw Refusal(
                "node \(heard.peer.name) does not prove that it has this cluster's key, and goes on")
        }
    }

    private mutating func greeted(
        _ hello: PeerIdentity, _ payload: [UInt8], _ channel: Channel
    ) throws(Refusal) -> Step {
        guard hello.cluster == identity.cluster else {
            throw Refusal(
                "node \(hello.name) is of another cluster: check the database and the addresses of both")
        }
        if let expected, hello.life != expected {
            // The address has a new process; the table will say so soon.
            throw Refusal("node \(hello.name) has been started anew")
        }
        guard let common = Dialect.common(identity, hello) else {
            throw Refusal(
                "no version of frames is common: \(identity.speech), \(hello.speech); go from one version to"
                    + " the next in steps")
        }
        dialect = common
        if let nodes = channel.nodes { try check(nodes, of: hello.name) }
        guard common.hasProofs else {
            guard trust.mayOmitProof(hello.life) else {
                throw Refusal(
                    "node \(hello.name) does not prove that it has this cluster's key, and the database does"
                        + " not show it as one of a former build")
            }
            return .done(hello)
        }
        heard = (hello, payload, channel.binding)
        let (connecting, listening) = transcript(payload)
        return .prove(
            trust.key.proof(
                of: side, connecting: connecting, listening: listening, channel: channel.binding))
    }

    /// Whether the certificate is of the node that the other side says it is.
    private func check(_ nodes: [String], of name: String) throws(Refusal) {
        if nodes.isEmpty, trust.wantsNames() {
            throw Refusal(
                "node \(name) shows a certificate that names no node: give it one of its own (`tidecast cert"
                    + " sign`), or let nodes share one (--allow-shared-peer-cert)")
        }
        guard nodes.isEmpty || nodes.contains(NodeCertificate.encoded(name)) else {
            throw Refusal("node \(name) shows the certificate of \(nodes.joined(separator: ", "))")
        }
    }

    private func transcript(_ theirs: [UInt8]) -> (connecting: [UInt8], listening: [UInt8]) {
        side == .connecting ? (words, theirs) : (theirs, words)
    }

    /// What a sentence of the other side says, fit for a log.
    static func sentence(_ payload: [UInt8]) -> String {
        let text = String(decoding: payload.prefix(refusalBytesMax), as: UTF8.self)
        return String(
            text.map { $0.isNewline || $0.asciiValue.map { $0 < 0x20 || $0 == 0x7F } == true ? " " : $0 })
    }
}
