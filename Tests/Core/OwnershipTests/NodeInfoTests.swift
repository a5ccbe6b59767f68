import Journal
import Model
import Testing

@testable import Ownership

/// The descriptions that nodes put into their leases, also nodes of another build.
@Suite("A node's words of itself") struct NodeInfoTests {
    private static let info = Ownership.NodeInfo(
        isShard: true, isGateway: true, weight: 3, peer: "a:1", gossip: "a:2", zone: "z", build: "0.1.0")

    private func row(_ session: UInt64, _ name: String, _ info: [UInt8]) -> SessionRow {
        SessionRow(id: SessionID(session), node: name, counter: 1, info: info)
    }

    @Test("are read back, also with more behind them")
    func longer() {
        let bytes = NodeInfoTests.info.encoded
        #expect(Ownership.NodeInfo(decoding: bytes) == NodeInfoTests.info)
        #expect(Ownership.NodeInfo(decoding: bytes + [1, 2, 3]) == NodeInfoTests.info)
    }

    @Test("say which outboxes stand still, the first of them by name")
    func stalled() {
        var info = NodeInfoTests.info
        let all = (0..<40).map {
            Ownership.NodeInfo.Stalled.Pair(from: PartitionID($0), to: PartitionID(4095))
        }
        info.stalled = Ownership.NodeInfo.Stalled(all)
        #expect(info.stalled.count == 40 && info.stalled.first == Array(all.prefix(16)))
        #expect(Ownership.NodeInfo(decoding: info.encoded) == info)
    }

    @Test("say which certificate the node shows, with and without outboxes")
    func certificate() {
        var info = NodeInfoTests.info
        info.certificate = CertificateFingerprint([UInt8](repeating: 7, count: 32))
        #expect(Ownership.NodeInfo(decoding: info.encoded) == info)
        info.stalled = Ownership.NodeInfo.Stalled([.init(from: PartitionID(1), to: PartitionID(2))])
        #expect(Ownership.NodeInfo(decoding: info.encoded) == info)
    }

    @Test("say for which conditions partitions do not answer")
    func conditions() {
        var info = NodeInfoTests.info
        let pair = Ownership.NodeInfo.Stalled.Pair(from: PartitionID(3), to: PartitionID(4))
        for outboxes in [[], [pair]] {
            info.stalled = Ownership.NodeInfo.Stalled(outboxes)
            info.stalledConditions = Ownership.NodeInfo.Stalled([pair, pair])
            #expect(Ownership.NodeInfo(decoding: info.encoded) == info)
        }
    }

    @Test("say which secrets keys the node has")
    func secretsKeys() {
        var info = NodeInfoTests.info
        info.secretsKeys = [1, .max]
        #expect(Ownership.NodeInfo(decoding: info.encoded) == info)
    }

    @Test("are not read where they are cut")
    func whatIsCutIsNotRead() {
        let bytes = NodeInfoTests.info.encoded
        for count in 1..<bytes.count {
            let cut = Array(bytes[..<count])
            #expect(Ownership.NodeInfo(decoding: cut) == nil)
            #expect(Ownership.NodeInfo.mistake(cut) == "what it says of itself makes no sense")
        }
        // A session that has just begun has no description.
        #expect(Ownership.NodeInfo.mistake([]) == nil && Ownership.NodeInfo.mistake(bytes) == nil)
    }

    /// A newer node gets no partitions. The operator hears of the node once, and again when it has changed.
    @Test("are told to the operator once where they are from a newer build")
    func aNewerNodeIsNamed() {
        var newer = NodeInfoTests.info.encoded
        newer[0] = 2
        var machine = Ownership(
            session: SessionID(1), name: "a", info: NodeInfoTests.info, now: MonotonicTime.zero)
        func strangers(_ rows: [SessionRow], at seconds: UInt64) -> [[String: String]] {
            let now = MonotonicTime(nanoseconds: seconds * 1_000_000_000)
            var effects: [Ownership.Effect] = []
            machine.handle(.woke, now: now, into: &effects)
            let poll = Ownership.Poll(sessions: rows, partitions: [])
            machine.handle(.polled(poll, asked: now), now: now, into: &effects)
            return effects.compactMap { if case .strangers(let found) = $0 { found } else { nil } }
        }
        let own = row(1, "a", NodeInfoTests.info.encoded)
        #expect(strangers([own, row(2, "b", [])], at: 1).isEmpty)
        let told = strangers([own, row(2, "b", newer)], at: 3)
        #expect(
            told == [
                [
                    "b": "what it says of itself of version 2: it is from a newer tidecast, this one reads"
                        + " version 1"
                ]
            ])
        #expect(machine.members.map(\.name) == ["a"])
        #expect(strangers([own, row(2, "b", newer)], at: 5).isEmpty)
        #expect(strangers([own], at: 7) == [[:]])
    }
}
