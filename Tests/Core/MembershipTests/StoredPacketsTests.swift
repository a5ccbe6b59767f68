import Bytes
import Model
import StoredFormats
import Testing

@testable import Membership

/// Packets of gossip as nodes of closed revisions send them.
@Suite("Packets of closed revisions") struct StoredPacketsTests {
    private static let kinds: [Packet.Kind] = [
        .ping(SessionID(1)), .ack, .nack, .indirect(SessionID(1), address: "10.0.0.7:7946"), .sync,
        .syncAnswer,
    ]
    private static let updates: [Update] = [
        .alive(
            Membership.Member(
                session: SessionID(7), name: "shard-7", address: "10.0.0.7:7946", info: [1, 2, 3],
                incarnation: 4, state: .alive, since: MonotonicTime.zero)),
        .suspect(SessionID(7), 4, by: SessionID(1)), .dead(SessionID(7), 4, by: SessionID(1)),
        .left(SessionID(7), 4), .entry(Membership.GossipEntry(key: 1, version: 2, value: 3)),
    ]

    private func bytes(_ kind: Packet.Kind, _ sender: SessionID, _ number: UInt32, _ updates: [Update])
        -> [UInt8]
    {
        var out = Packet.begin(kind, from: sender, number: number)
        for update in updates { out.raw(update.encoded) }
        return out.bytes
    }

    @Test("are read, and written as those revisions did")
    func asThen() throws {
        let samples = StoredPacketsTests.kinds.enumerated().map {
            StoredFormats.Sample("packet-\($0)", bytes($1, SessionID(2), 77, StoredPacketsTests.updates))
        }
        let stored = try StoredFormats.read("packets.txt", recording: samples)
        #expect(!stored.isEmpty)
        for (revision, samples) in stored {
            for sample in samples {
                var reader = ByteReader(sample.bytes)
                let packet = try Packet(from: &reader)
                var updates: [Update] = []
                while !reader.isAtEnd {
                    updates.append(try #require(try Update.decode(from: &reader), "unknown news"))
                }
                #expect(updates.count == StoredPacketsTests.updates.count)
                let today = bytes(packet.kind, packet.sender, packet.number, updates)
                #expect(today == sample.bytes, "\(revision) \(sample.name)")
            }
            #expect(Set(samples.compactMap(\.bytes.first)).isSuperset(of: 1...6), "\(revision)")
        }
    }
}
