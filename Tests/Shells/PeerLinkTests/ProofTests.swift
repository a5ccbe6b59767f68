import Model
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import PeerLink

/// A node talks only to a peer that proves in its greeting that it has the cluster's key.
@Suite("Greetings that prove the key") struct ProofTests {

    private static func identity(_ processID: ProcessID, nonce: UInt8) -> PeerIdentity {
        PeerIdentity.test(processID).withNonce(Array(repeating: nonce, count: Greeting.nonceBytes))
    }

    private static func greeting(
        _ side: Greeting.Side, _ nonce: UInt8, _ trust: PeerTrust = .test()
    ) -> Greeting {
        let processID: ProcessID = side == .connecting ? 1 : 2
        return Greeting(
            identity(processID, nonce: nonce), side, expected: side == .connecting ? 2 : nil, trust: trust)
    }

    /// Lets both sides hear the other's greeting. Returns the proofs of both.
    private func meet(
        _ one: inout Greeting, _ other: inout Greeting, _ channels: ([UInt8], [UInt8]) = ([], [])
    ) throws -> ([UInt8], [UInt8]) {
        func proof(_ step: Greeting.Step) -> [UInt8] {
            guard case .prove(let proof) = step else { return [] }
            return proof
        }
        let words = (one.words, other.words)
        return (
            proof(try one.hear(.hello, words.1, channel: .init(binding: channels.0))),
            proof(try other.hear(.hello, words.0, channel: .init(binding: channels.1)))
        )
    }

    private func isBelieved(_ greeting: inout Greeting, _ proof: [UInt8]) -> Bool {
        guard case .done? = try? greeting.hear(.proof, proof, channel: .init()) else { return false }
        return true
    }

    @Test("are believed where both sides prove it")
    func bothProveAndAreBelieved() throws {
        var (one, other) = (ProofTests.greeting(.connecting, 3), ProofTests.greeting(.listening, 4))
        let proofs = try meet(&one, &other)
        #expect(proofs.0 != proofs.1 && !proofs.0.isEmpty)
        #expect(isBelieved(&one, proofs.1) && isBelieved(&other, proofs.0))
        #expect(one.dialect.version == 1)
    }

    @Test("are refused with another key, a cut or changed proof, or one's own sent back")
    func badProofs() throws {
        let stranger = PeerTrust.test([9, 9, 9])
        var (one, other) = (ProofTests.greeting(.connecting, 3, stranger), ProofTests.greeting(.listening, 4))
        let proofs = try meet(&one, &other)
        #expect(!isBelieved(&other, proofs.0) && !isBelieved(&one, proofs.1))
        #expect(!isBelieved(&other, proofs.1), "its own")
        var good = ProofTests.greeting(.connecting, 3)
        other = ProofTests.greeting(.listening, 4)
        let (proof, _) = try meet(&good, &other)
        for count in 0..<proof.count { #expect(!isBelieved(&other, Array(proof[..<count]))) }
        for index in proof.indices {
            var bad = proof
            bad[index] ^= 1
            #expect(!isBelieved(&other, bad))
        }
        #expect(!isBelieved(&other, proof + [0]) && isBelieved(&other, proof))
    }

    /// A recorded proof is for nonces that no side says again.
    @Test("hold for one connection")
    func oneConnection() throws {
        var (one, other) = (ProofTests.greeting(.connecting, 3), ProofTests.greeting(.listening, 4))
        let recorded = try meet(&one, &other)
        var (again, later) = (ProofTests.greeting(.connecting, 3), ProofTests.greeting(.listening, 5))
        _ = try meet(&again, &later)
        #expect(!isBelieved(&later, recorded.0))
    }

    /// An attacker between two TLS connections cannot hand a proof on.
    @Test("hold for one TLS channel")
    func aProofHoldsForOneChannel() throws {
        var (one, other) = (ProofTests.greeting(.connecting, 3), ProofTests.greeting(.listening, 4))
        let proofs = try meet(&one, &other, ([1, 1], [2, 2]))
        #expect(!isBelieved(&one, proofs.1) && !isBelieved(&other, proofs.0))
    }

    @Test("come first: nothing else is heard before the proof")
    func beforeProof() throws {
        for kind in [Frame.Kind.hello, .data, .ping, .pong, .refusal] {
            var (one, other) = (ProofTests.greeting(.connecting, 3), ProofTests.greeting(.listening, 4))
            let words = one.words
            _ = try meet(&one, &other)
            #expect(throws: Greeting.Refusal.self) {
                try other.hear(kind, kind == .hello ? words : [1], channel: .init())
            }
        }
    }

    @Test("are refused where the node has other stored rules, by name and with both digests")
    func otherRules() throws {
        var other = ProofTests.identity(1, nonce: 3)
        other.rules = 7
        var greeting = ProofTests.greeting(.listening, 4)
        #expect { try greeting.hear(.hello, other.encoded, channel: .init()) } throws: {
            ($0 as? Greeting.Refusal)?.reason
                == "node node-1 is under stored rules 7, as only another tidecast has them: this one has "
                + String(StoredRules.ofClusters, radix: 16)
        }
    }

    @Test("are refused with a sentence that is made fit for a log")
    func fitForLog() {
        #expect(Greeting.sentence(Array("a\nb\u{1B}[1m\0c".utf8)) == "a b [1m c")
        #expect(Greeting.sentence([UInt8](repeating: 65, count: 5000)).utf8.count == Greeting.refusalBytesMax)
        #expect(!Greeting.sentence([0xFF, 0xFE, 0x0A]).isEmpty)
    }

    /// Over sockets: a node refuses a process without the key by name, tells it why, and takes nothing from
    /// it.
    @Test(
        "are refused over sockets to a process without the key, by name and with the reason",
        arguments: [true, false])
    func whoHasNoKeyIsRefused(_ isServerTheStranger: Bool) throws {
        let (there, here) = (Heard(), Heard())
        let reports = Mutex<[String]>([])
        var events = here.events
        events.link = { _, _, report in
            if case .failed(let reason) = report { reports.withLock { $0.append(reason) } }
        }
        let strict = PeerTrust.test()
        let stranger = PeerTrust.test([9])
        let server = try PeerServer(
            trust: isServerTheStranger ? stranger : strict, events: there.events)
        let peers = try Connecting(
            to: server.port, trust: isServerTheStranger ? strict : stranger, events: events,
            sending: [[1, 2, 3]])
        let strictOne = isServerTheStranger ? here : there
        strictOne.wait { !strictOne.refusals.isEmpty }
        let name = isServerTheStranger ? "node-2" : "node-1"
        #expect(strictOne.refusals.first == "node \(name) does not prove that it has this cluster's key")
        there.wait { !reports.withLock { $0.isEmpty } }
        #expect(reports.withLock { $0.first }?.contains("does not prove that it has") == true)
        #expect(there.payloads.isEmpty)
        try peers.run { $0.close() }
        server.close()
    }

    /// Without TLS, a peer that sent a node's greeting back to the node was once taken for a node.
    @Test("are not taken from an echo of the node's own")
    func echo() throws {
        let there = Heard()
        let server = try PeerServer(identity: ProofTests.identity(2, nonce: 1), events: there.events)
        let client = try ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Echo())
                }
            }
            .connect(host: "127.0.0.1", port: server.port).wait()
        try client.closeFuture.wait()
        #expect(there.payloads.isEmpty && there.refusals.count == 1)
        server.close()
    }
}

/// Sends back the bytes that it reads.
private final class Echo: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        context.writeAndFlush(data, promise: nil)
    }
}
