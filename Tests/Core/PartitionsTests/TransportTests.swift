import Bytes
import Model
import Testing

@testable import Partitions

/// The push services that reach a device, as its partition keeps them.
@Suite("Transports of devices")
struct TransportTests {
    private let harness = PartitionHarness()
    private let web = Transport(kind: .web, address: Array("endpoint and keys".utf8))
    private let apns = Transport(kind: .apns, address: [0, 1, 65, 7])

    private func transports(_ harness: PartitionHarness, _ device: Registration) -> [StoredTransport]? {
        guard
            case .device(_, let stored, _) = harness.request(
                .device(device, by: .backend), of: device.partition)
        else { return nil }
        return stored
    }

    @Test("an address is kept over a restart, one of each kind, in the order of the kinds")
    func kept() throws {
        let (device, credential) = try #require(harness.register(in: 1))
        for one in [apns, web] {
            guard
                case .done = harness.request(
                    .setTransport(device, by: .device(credential), one), of: device.partition)
            else { Issue.record("the address was not taken"); return }
        }
        #expect(transports(harness, device)?.map(\.transport) == [web, apns])
        #expect(transports(harness, device)?.first?.registered == harness.now.wall)
        let replayed = try harness.replayed(1)
        #expect(replayed.state.transports[device.index.rawValue] == transports(harness, device))
        #expect(replayed.state.brokenInvariant == nil)
    }

    @Test("a device that tells another address has the new one alone, and keeps its topics")
    func replaced() throws {
        let (device, _) = try #require(harness.register(in: 1))
        _ = harness.change(.subscribe, "news", [device])
        _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
        let former = try #require(transports(harness, device)?.first)
        let next = Transport(kind: .web, address: Array("another endpoint".utf8))
        _ = harness.request(.setTransport(device, by: .backend, next), of: device.partition)
        let stored = try #require(transports(harness, device))
        #expect(stored.map(\.transport) == [next])
        #expect(stored[0].generation > former.generation)
        guard
            case .reachable(let topics, let kinds) = harness.request(
                .subscriptions(of: device, by: .backend), of: device.partition)
        else { Issue.record("the device has no list"); return }
        #expect(topics.map(\.topic.description) == ["news"] && kinds == [.web])
    }

    @Test("the same address again makes no record within a day, and one after a day")
    func fresh() throws {
        let (device, _) = try #require(harness.register(in: 1))
        _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
        let records = harness.journal[1].count
        _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
        #expect(harness.journal[1].count == records)
        let day = Partition.transportFreshness
        harness.now = Instant(
            monotonic: harness.now.monotonic.advanced(by: .milliseconds(UInt64(day))),
            wall: WallTime(milliseconds: harness.now.wall.milliseconds + day))
        _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
        #expect(harness.journal[1].count > records)
        #expect(transports(harness, device)?.first?.registered == harness.now.wall)
    }

    @Test("an answer about a former address does not end the new one")
    func formerGeneration() throws {
        let (device, _) = try #require(harness.register(in: 1))
        let index = device.index.rawValue
        _ = harness.request(.setTransport(device, by: .backend, web), of: device.partition)
        let former = try #require(transports(harness, device)?.first?.generation)
        let next = Transport(kind: .web, address: Array("another endpoint".utf8))
        _ = harness.request(.setTransport(device, by: .backend, next), of: device.partition)
        var state = PartitionState(
            id: PartitionID(1), history: History(101), partitionCount: 4, names: TopicNames())
        try state.restore(SnapshotWriter.whole(of: harness.partitions[1].state))
        var cursor = PartitionState.Cursor(record: state.applied.next)
        state.apply(.endTransport(index: index, .web, generation: former), &cursor)
        #expect(state.transports[index]?.map(\.transport) == [next])
        let present = try #require(state.transports[index]?.first?.generation)
        state.apply(.endTransport(index: index, .web, generation: present), &cursor)
        #expect(state.transports[index] == nil && state.brokenInvariant == nil)
    }

    @Test("a device may end its transports, and a transport ends with its device")
    func ended() throws {
        let (device, credential) = try #require(harness.register(in: 1))
        for one in [apns, web] {
            _ = harness.request(.setTransport(device, by: .backend, one), of: device.partition)
        }
        for _ in 0..<2 {
            let reply = harness.request(
                .endTransport(device, by: .device(credential), .apns), of: device.partition)
            guard case .done = reply else { Issue.record("the transport was not ended"); return }
        }
        #expect(transports(harness, device)?.map(\.transport) == [web])
        _ = harness.request(.unregister(device, by: .backend), of: device.partition)
        #expect(harness.partitions[1].state.transports.isEmpty)
        #expect(try harness.replayed(1).state.transports.isEmpty)
    }

    @Test("a stranger neither sets, ends nor sees the transports of a device")
    func strangers() throws {
        let (device, _) = try #require(harness.register(in: 1))
        let stranger = Authority.device(DeviceMAC(high: 1, low: 1))
        for request in [
            Request.setTransport(device, by: stranger, web), .endTransport(device, by: stranger, .web),
            .device(device, by: stranger),
        ] {
            guard case .refused(.wrongCredential) = harness.request(request, of: device.partition) else {
                Issue.record("a stranger was let in")
                return
            }
        }
        #expect(harness.partitions[1].state.transports.isEmpty)
    }

    @Test("a snapshot with transports is read back, and refused where it is cut")
    func snapshot() throws {
        func empty() -> PartitionState {
            PartitionState(id: PartitionID(0), history: History(9), partitionCount: 2, names: TopicNames())
        }
        var state = empty()
        var read = empty()
        var cursor = PartitionState.Cursor(record: Sequence(1))
        state.apply(
            .register(index: 0, project: ProjectNumber(7), nonce: 1, secret: 2, day: Day(3)), &cursor)
        state.applied = Sequence(1)
        state.apply(.setTransport(index: 0, web, at: WallTime(milliseconds: 1)), &cursor)
        let bytes = SnapshotWriter.whole(of: state)
        try read.restore(bytes)
        #expect(read.transports == state.transports)
        for length in 0..<bytes.count {
            var half = empty()
            #expect(throws: DecodeError.self) { try half.restore(Array(bytes.prefix(length))) }
        }
    }
}
