import Journal
import Model
import NIOCore
import NIOPosix
import StoredFormats
import Synchronization
import Testing

@testable import PeerLink

/// Frames, greetings and datagrams as nodes of closed revisions send them, read by a node of today.
@Suite("Frames of closed revisions") struct StoredFramesTests {
    private static let envelope = GossipEnvelope(
        cluster: [UInt8](repeating: 7, count: 16), key: [1, 2, 3])
    private static let dialects = [
        "v1": Dialect.greeting, "v2": Dialect(version: 2, features: []),
        "v2-lz4": Dialect(version: 2, features: .lz4), "v3": Dialect(version: 3, features: []),
        "v3-lz4": Dialect(version: 3, features: .lz4),
    ]
    private static let long = Array(repeating: Array("the same again, ".utf8), count: 500).flatMap { $0 }

    private static func identity(_ processID: ProcessID) -> PeerIdentity {
        PeerIdentity(cluster: Array(repeating: 1, count: 16), processID: processID, name: "node-\(processID)")
    }

    private static var greeting: PeerIdentity {
        identity(1).withNonce([UInt8](repeating: 5, count: Greeting.nonceBytes))
    }

    private static func frame(_ kind: Frame.Kind, _ payload: [UInt8], _ dialect: Dialect) -> [UInt8] {
        var buffer = ByteBuffer()
        Frame.write(kind, payload, in: dialect, to: &buffer)
        return Array(buffer.readableBytesView)
    }

    private static var samples: [StoredFormats.Sample] {
        var samples = [
            StoredFormats.Sample("hello", frame(.hello, greeting.encoded, .greeting)),
            StoredFormats.Sample("gossip", envelope.wrap([9, 8, 7])),
        ]
        for (name, dialect) in dialects.sorted(by: { $0.key < $1.key }) {
            samples.append(.init("ping/\(name)", frame(.ping, [], dialect)))
            samples.append(.init("pong/\(name)", frame(.pong, [], dialect)))
            samples.append(.init("data/\(name)", frame(.data, [1, 2, 3], dialect)))
            samples.append(.init("long/\(name)", frame(.data, long, dialect)))
        }
        return samples
    }

    private func stored() throws -> [(revision: String, samples: [StoredFormats.Sample])] {
        let stored = try StoredFormats.read("frames.txt", recording: StoredFramesTests.samples)
        #expect(!stored.isEmpty)
        return stored
    }

    private func greeting(_ samples: [StoredFormats.Sample]) throws -> PeerIdentity {
        let hello = try #require(samples.first { $0.name == "hello" })
        return try #require(PeerIdentity(decoding: try payload(of: hello.bytes)))
    }

    private func payload(of hello: [UInt8]) throws -> [UInt8] {
        var buffer = ByteBuffer(bytes: hello)
        let frame = try #require(
            try Frame.read(from: &buffer, in: .greeting, payloadMax: Frame.greetingBytesMax))
        #expect(frame.kind == .hello)
        return frame.payload
    }

    @Test("are each read, and written as then")
    func eachFrameIsRead() throws {
        for (revision, samples) in try stored() {
            for sample in samples where sample.name.contains("/") {
                let words = sample.name.split(separator: "/").map(String.init)
                let dialect = try #require(StoredFramesTests.dialects[words[1]])
                var buffer = ByteBuffer(bytes: sample.bytes)
                let frame = try #require(try Frame.read(from: &buffer, in: dialect))
                let expected: (Frame.Kind, [UInt8]) =
                    switch words[0] {
                    case "ping": (.ping, [])
                    case "pong": (.pong, [])
                    case "data": (.data, [1, 2, 3])
                    default: (.data, StoredFramesTests.long)
                    }
                #expect(frame.kind == expected.0 && frame.payload == expected.1)
                #expect(buffer.readableBytes == 0, "\(revision) \(sample.name)")
                // Another version of the library may compress to other bytes.
                if !dialect.features.contains(.lz4) || words[0] != "long" {
                    let today = StoredFramesTests.frame(frame.kind, frame.payload, dialect)
                    #expect(today == sample.bytes, "\(revision) \(sample.name): what is said to it")
                }
            }
        }
    }

    @Test("come with datagrams, which are opened and sealed as then")
    func datagrams() throws {
        for (revision, samples) in try stored() {
            let gossip = try #require(samples.first { $0.name == "gossip" })
            #expect(try StoredFramesTests.envelope.unwrap(gossip.bytes) == [9, 8, 7], "\(revision)")
            #expect(StoredFramesTests.envelope.wrap([9, 8, 7]) == gossip.bytes, "\(revision)")
        }
    }

    /// A node of today finds a version and features that the old node knows.
    @Test("come with greetings, in which a common version is found")
    func commonVersion() throws {
        for (revision, samples) in try stored() {
            let theirs = try greeting(samples)
            let common = try #require(
                Dialect.common(StoredFramesTests.identity(2), theirs), "\(revision): no common version")
            #expect(theirs.versions.contains(common.version) && Dialect.versions.contains(common.version))
            #expect(common.features.isSubset(of: theirs.features), "\(revision)")
            #expect(common == Dialect.common(theirs, StoredFramesTests.identity(2)))
        }
    }

    /// Plays the bytes of old nodes to a node of today over a socket. The node of today must answer with a
    /// greeting that they can read, take their frames, and answer in their version.
    @Test("are taken and answered by a node of today over a socket")
    func aNodeOfTodayTalksToThem() throws {
        let group = MultiThreadedEventLoopGroup.singleton
        for (revision, samples) in try stored() {
            let there = Heard()
            let server = try PeerServer(
                group: group, host: "127.0.0.1", port: 0, identity: StoredFramesTests.identity(2),
                events: there.events)
            let common = try #require(
                Dialect.common(StoredFramesTests.identity(2), try greeting(samples)))
            let name = try #require(StoredFramesTests.dialects.first { $0.value == common }).key
            let answers = Answers()
            let client = try ClientBootstrap(group: group)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        try channel.pipeline.syncOperations.addHandler(answers)
                    }
                }
                .connect(host: "127.0.0.1", port: server.port).wait()
            let theirs = try #require(samples.first { $0.name == "hello" })
            try client.writeAndFlush(ByteBuffer(bytes: theirs.bytes)).wait()
            if common.hasProofs {
                // Each connection has another proof: the test makes it from today's greeting.
                there.wait { answers.greeting != nil || !there.refusals.isEmpty }
                let proof = PeerTrust.test().key.proof(
                    of: .connecting, connecting: try payload(of: theirs.bytes),
                    listening: try #require(answers.greeting), channel: [])
                try client.writeAndFlush(
                    ByteBuffer(bytes: StoredFramesTests.frame(.proof, proof, common))
                ).wait()
            }
            for wanted in ["data/\(name)", "ping/\(name)", "long/\(name)"] {
                let sample = try #require(samples.first { $0.name == wanted })
                try client.writeAndFlush(ByteBuffer(bytes: sample.bytes)).wait()
            }
            there.wait { there.payloads.count == 2 || !there.refusals.isEmpty }
            #expect(there.payloads == [[1, 2, 3], StoredFramesTests.long], "\(revision)")
            #expect(there.refusals.isEmpty, "\(revision)")
            func said() throws -> [(kind: Frame.Kind, payload: [UInt8])] {
                var bytes = ByteBuffer(bytes: answers.bytes)
                guard let hello = try Frame.read(from: &bytes, in: .greeting) else { return [] }
                var frames = [hello]
                while let frame = try Frame.read(from: &bytes, in: common) { frames.append(frame) }
                return frames
            }
            there.wait { ((try? said().contains { $0.kind == .pong }) ?? true) }
            let frames = try said()
            let hello = try #require(frames.first)
            #expect(PeerIdentity(decoding: hello.payload)?.versions == Dialect.versions)
            #expect(frames.contains { $0.kind == .pong }, "\(revision): no answer to a ping")
            try? client.close().wait()
            server.close()
        }
    }
}

/// Keeps the bytes that come.
private final class Answers: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    private let heard = Mutex<[UInt8]>([])
    var bytes: [UInt8] { heard.withLock { $0 } }
    /// The other side's greeting, once it is whole.
    var greeting: [UInt8]? {
        var buffer = ByteBuffer(bytes: bytes)
        return try? Frame.read(from: &buffer, in: .greeting)?.payload
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = Array(unwrapInboundIn(data).readableBytesView)
        heard.withLock { $0 += bytes }
    }
}
