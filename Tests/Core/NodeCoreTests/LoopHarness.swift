import Bytes
import Journal
import Model
import Partitions
import Routing

@testable import NodeCore
@testable import Ownership

/// One loop's core without a shell: the tests hand it messages and read its effects.
final class LoopHarness {
    static let project = ProjectNumber(7)
    static let ownProcess: ProcessID = 5
    static let otherProcess: ProcessID = 6
    /// The partition that the tests look at.
    static let partition = PartitionID(2)

    final class Host: LoopHost {
        var monotonic = MonotonicTime(nanoseconds: 1_000_000_000)
        var authority = MonotonicTime.max
        /// The pressure of all other loops, and of the other process.
        var pressure = Pressure.none
        var loopCount = 1
        func pressure(ofLoop loop: Int) -> Pressure {
            precondition(loop < loopCount, "there is no such loop")
            return pressure
        }
        func pressure(ofPeer processID: ProcessID) -> Pressure { pressure }
        /// What the loops of one process share.
        final class Shared { var tally = GoneTally() }
        var shared = Shared()
        func withGoneTally<Result: Sendable>(_ body: (inout GoneTally) -> Result) -> Result {
            body(&shared.tally)
        }

        func event(_ body: [UInt8], position: Position, history: History) -> [UInt8] { body }
        func deletedMessages(position: Position, history: History) -> [UInt8] { [] }
        func write(_ chunk: [UInt8], to stream: UInt64) -> Bool { true }
        func open(_ stream: UInt64) {}
        var refused: [UInt64] = []
        func refuse(_ stream: UInt64, _ refusal: Refusal) { refused.append(stream) }
        func endReplaced(_ stream: UInt64) {}
        func endUnregistered(_ stream: UInt64) {}
        func endForReconnect(_ stream: UInt64) {}
    }
    private final class Proofs: DeviceMACMaker {
        func tokenProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 1) }
        func credentialProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 2) }
    }

    let host = Host()
    let core: LoopCore<Host>
    let gateway: GatewayID
    private let map: NodeMap

    init(
        isClustered: Bool = true, loopCount: Int = 1, _ change: (inout LoopOptions) -> Void = { _ in }
    ) {
        map = NodeMap(partitionCount: 4, loopCount: loopCount)
        host.loopCount = loopCount
        let session = SessionID(UInt64(isClustered ? LoopHarness.ownProcess.rawValue : 1))
        var options = LoopOptions(
            map: map, session: session, histories: (0..<4).map { History($0 + 100) },
            partition: PartitionOptions(partitionCount: 4))
        options.isClustered = isClustered
        options.processID = isClustered ? LoopHarness.ownProcess : 0
        change(&options)
        core = LoopCore(
            options, host: host, proofs: Proofs(), random: SeededGenerator(seed: 1),
            now: Instant(monotonic: host.monotonic, wall: WallTime(milliseconds: 1_800_000_000_000)))
        gateway = core.gateway
        core.updateCatalog(projects: [LoopHarness.project], limits: [:], births: [:], now: now)
    }

    /// The days by which the wall clock has leapt.
    var days: Int64 = 0
    var years: Int64 {
        get { days / 365 }
        set { days = newValue * 365 }
    }
    /// Whether the wall clock goes on with the monotonic clock.
    var isWallRunning = false
    var now: Instant {
        let ran = isWallRunning ? Int64(host.monotonic.since(.zero).milliseconds) : 0
        return Instant(
            monotonic: host.monotonic,
            wall: WallTime(milliseconds: 1_800_000_000_000 + days * 86_400_000 + ran))
    }

    /// Runs a turn with these messages, and returns its effects.
    @discardableResult
    func turn(_ messages: LoopMessage...) -> [LoopEffect] {
        var batch = LoopInbox.Batch(messages)
        core.turn(&batch, now: now)
        defer { core.effects = [] }
        return core.effects
    }

    func pass(milliseconds: UInt64) {
        host.monotonic = host.monotonic.advanced(by: .milliseconds(milliseconds))
    }

    /// The partition as its first owner reads it.
    static func stored(_ id: PartitionID = partition) -> StoredPartition {
        StoredPartition(
            id,
            records: [
                StoredRecord(
                    sequence: Sequence(1), epoch: Epoch(1),
                    body: Partition.barrier(session: SessionID(1), epoch: Epoch(1)))
            ])
    }

    /// The loop serves the partition since epoch 3, and the other process owns all other partitions.
    func serve() {
        turn(.order(.serve(LoopHarness.partition, Epoch(3))))
        turn(.engine(.loaded(LoopHarness.stored(), Epoch(3), quotas: [:])))
        turn(.order(.places(LoopHarness.places(own: [LoopHarness.partition]), away: [])))
    }

    /// The other process owns each partition that is not in `own`.
    static func places(own: Set<PartitionID>) -> PartitionPlaces {
        let session = SessionID(UInt64(ownProcess.rawValue))
        let other = SessionID(UInt64(otherProcess.rawValue))
        let info = Ownership.NodeInfo(isShard: true, isGateway: true, peer: "", gossip: "")
        return PartitionPlaces(
            (0..<UInt16(4)).map { number in
                let owner = own.contains(PartitionID(number)) ? session : other
                return Ownership.Route(session: owner, epoch: Epoch(3))
            },
            members: [Ownership.Member(session: other, name: "other", info: info)], own: session)
    }

    /// A request of the other process for the partition.
    static func registration(
        number: UInt64 = 1, epoch: Epoch = Epoch(3), loop: Int = 0, processID: ProcessID = otherProcess,
        deadline: MonotonicTime
    ) -> LoopMessage {
        .request(
            partition, RequestID(gateway: GatewayID(processID: processID, loop: loop), number: number),
            .register(project: project, limit: 10, nonce: 1, secret: 2),
            RequestGuard(epoch: epoch, deadline: Deadline(deadline)))
    }

    /// The messages of a frame.
    static func read(_ bytes: [UInt8]) -> [PeerMessage] {
        var reader = ByteReader(bytes)
        var messages: [PeerMessage] = []
        while !reader.isAtEnd, let message = try? PeerMessage.decode(from: &reader) {
            messages.append(message)
        }
        return messages
    }
}

extension [LoopEffect] {
    var rows: [Row] {
        flatMap { effect -> [Row] in if case .append(let rows) = effect { rows } else { [] } }
    }
    /// The messages to the other process.
    var said: [PeerMessage] {
        flatMap { effect -> [PeerMessage] in
            if case .send(let bytes, LoopHarness.otherProcess) = effect {
                LoopHarness.read(bytes)
            } else {
                []
            }
        }
    }
    var replies: [Reply] {
        said.compactMap { message in if case .reply(_, let reply) = message { reply } else { nil } }
    }
    var closing: [PartitionID] {
        compactMap { effect in if case .close(let id) = effect { id } else { nil } }
    }
    var givenUp: [PartitionID] {
        compactMap { effect in if case .call(.giveUp(let id, _, _)) = effect { id } else { nil } }
    }
}
