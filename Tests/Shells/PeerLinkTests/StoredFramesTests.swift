import Model
import NIOCore
import StoredFormats
import Testing

@testable import PeerLink

/// Frames, greetings and datagrams as nodes of closed revisions send them, read by a node of today.
@Suite("Frames of closed revisions") struct StoredFramesTests {
    private static let envelope = GossipEnvelope(
        cluster: [UInt8](repeating: 7, count: 16), key: [1, 2, 3])
    private static let long = Array(repeating: Array("the same again, ".utf8), count: 500).flatMap { $0 }

    private static var greeting: PeerIdentity {
        PeerIdentity.test(1).withNonce([UInt8](repeating: 5, count: Greeting.nonceBytes))
    }

    private static func frame(_ kind: Frame.Kind, _ payload: [UInt8]) -> [UInt8] {
        Array(RawPeer.frame(kind, payload).readableBytesView)
    }

    private static var samples: [StoredFormats.Sample] {
        [
            .init("hello", frame(.hello, greeting.encoded)), .init("gossip", envelope.wrap([9, 8, 7])),
            .init("ping", frame(.ping, [])), .init("pong", frame(.pong, [])),
            .init("data", frame(.data, [1, 2, 3])), .init("long", frame(.data, long)),
        ]
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
        let expected: [String: (Frame.Kind, [UInt8])] = [
            "ping": (.ping, []), "pong": (.pong, []), "data": (.data, [1, 2, 3]),
            "long": (.data, StoredFramesTests.long),
        ]
        for (revision, samples) in try stored() {
            for sample in samples {
                guard let (kind, payload) = expected[sample.name] else { continue }
                var buffer = ByteBuffer(bytes: sample.bytes)
                let frame = try #require(try Frame.read(from: &buffer, in: .greeting))
                #expect(frame.kind == kind && frame.payload == payload)
                #expect(buffer.readableBytes == 0, "\(revision) \(sample.name)")
                // Another version of the library may compress to other bytes.
                if sample.name != "long" {
                    #expect(
                        StoredFramesTests.frame(kind, payload) == sample.bytes, "\(revision) \(sample.name)")
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

    /// A node of today finds a version that the old node knows.
    @Test("come with greetings, in which a common version is found")
    func commonVersion() throws {
        for (revision, samples) in try stored() {
            let theirs = try greeting(samples)
            let common = try #require(
                Dialect.common(.test(2), theirs), "\(revision): no common version")
            #expect(theirs.versions.contains(common.version) && Dialect.versions.contains(common.version))
            #expect(common == Dialect.common(theirs, .test(2)))
        }
    }

    /// Plays the bytes of old nodes to a node of today over a socket. The node of today must answer with a
    /// greeting that they can read, take their frames, and answer in their version.
    @Test("are taken and answered by a node of today over a socket")
    func aNodeOfTodayTalksToThem() throws {
        for (revision, samples) in try stored() {
            let there = Heard()
            let server = try PeerServer(events: there.events)
            let theirs = try #require(samples.first { $0.name == "hello" })
            let client = try RawPeer(try payload(of: theirs.bytes), to: server.port)
            for wanted in ["data", "ping", "long"] {
                let sample = try #require(samples.first { $0.name == wanted })
                try client.channel.writeAndFlush(ByteBuffer(bytes: sample.bytes)).wait()
            }
            there.wait { there.payloads.count == 2 && client.frames.contains(.pong) }
            #expect(there.payloads == [[1, 2, 3], StoredFramesTests.long], "\(revision)")
            #expect(there.refusals.isEmpty, "\(revision)")
            #expect(client.hello.flatMap { PeerIdentity(decoding: $0) }?.versions == Dialect.versions)
            #expect(client.frames.contains(.pong), "\(revision): no answer to a ping")
            try? client.channel.close().wait()
            server.close()
        }
    }
}
