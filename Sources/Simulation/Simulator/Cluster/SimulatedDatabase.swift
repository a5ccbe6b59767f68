import Journal
import MemoryEngine
import Model
import NodeCore
import Partitions
import Quotas

/// The projects. Nodes read them with a look at the home database.
struct SimulatedCatalog {
    var version: UInt64 = 0
    /// For each project, the epoch of its home partition in which it was created.
    var births: [ProjectNumber: Epoch] = [:]
    var limits: [ProjectNumber: QuotaLimits] = [:]
    /// Each project's push services; empty if services never change.
    var services: [ProjectNumber: PushServices] = [:]
}

/// One database of a simulated cluster: an engine in memory, connections that take time, break, and cannot
/// always be made, and an auditor that checks each record as it goes in (G5).
final class SimulatedDatabase {
    unowned let world: ClusterSimulation
    let engine: MemoryEngine
    /// Machines that cannot reach the database.
    var unreachable: Set<Int> = []
    var isAway = false
    /// How long a take lasts beyond the usual: its commits wait for a disk or a distant standby.
    var takesLast = TimeSpan.zero
    private(set) var catalog = SimulatedCatalog() { didSet { world.catalogChanged() } }

    private struct Entry {
        var sequence: Sequence
        var epoch: Epoch
        var body: [UInt8]
    }
    private let keepsPast: Bool
    /// The records of each partition that went in; only the last ones where `keepsPast` is false.
    private var past: [[Entry]]
    private static let pastMin = 512
    /// The session that took each partition last.
    private var owners: [Int: SessionID] = [:]
    /// Partitions that their owner gave up in order.
    private var releases: Set<PartitionID> = []

    init(_ world: ClusterSimulation, number: Int) {
        self.world = world
        engine = MemoryEngine(
            share: EngineShare(number: number, of: world.options.databaseCount) ?? EngineShare())
        keepsPast = world.options.keepsPast
        if world.hasLives {
            engine.leasesFromBirth = true
            engine.currentPast = EnginePast(
                system: 1, database: UInt32(number) + 1, timeline: 1, isReplicated: true)
        }
        #if DEBUG
            engine.trimsToNewest = world.options.partition.planted.contains(.trimToNewest)
        #endif
        let partitionCount = world.options.partitionCount
        past = Array(repeating: [], count: partitionCount)
        let histories = (0..<partitionCount).map { ClusterSimulation.history(of: PartitionID(UInt16($0))) }
        // Cannot fail: an engine without partitions takes any number that an id can name.
        try? engine.createPartitions(count: partitionCount, histories: histories)
    }

    /// A copy of all that the other database has acknowledged or shows.
    init(_ world: ClusterSimulation, copyOf other: SimulatedDatabase) {
        self.world = world
        (engine, keepsPast) = (other.engine.copy(), other.keepsPast)
        (past, owners, releases, catalog) = (other.past, other.owners, other.releases, other.catalog)
    }

    func makeProject(_ project: ProjectNumber) {
        let home = world.map.home(of: project)
        catalog.version += 1
        catalog.births[project] = row(home)?.epoch
        catalog.limits[project] = world.options.limits
    }

    func change(_ project: ProjectNumber, to limits: QuotaLimits) {
        catalog.version += 1
        catalog.limits[project] = limits
    }

    func changeKeys() { catalog.version += 1 }

    func change(_ project: ProjectNumber, to services: PushServices) {
        catalog.version += 1
        catalog.services[project] = services
    }

    func row(_ id: PartitionID) -> PartitionRow? {
        (try? engine.partitions())?.first { $0.id == id }
    }

    /// The database's name in sentences.
    var name: String { engine.share.isHome ? "the home database" : "database \(engine.share.number + 1)" }

    func reaches(_ index: Int) -> Bool { !isAway && !unreachable.contains(index) }

    // MARK: What can happen to a call

    enum Fate {
        case works
        /// There is no connection, and the call is not sent.
        case unsent
        /// The connection breaks before the call is done, or after it.
        case requestLost
        case replyLost
        /// The connection breaks, and a server process carries the request out later.
        case late
        case refused
    }

    /// The time until the database carries a call out.
    func travel(isWrite: Bool) -> TimeSpan {
        let slow = world.isLoading && !world.isHealing ? world.options.writeMin : .zero
        let way = TimeSpan.microseconds(200) + world.roll(.microseconds(800))
        return isWrite ? way + .microseconds(500) + slow + world.roll(world.writeMax) : way
    }

    func fate(of call: EngineConnection.Kind, from index: Int) -> Fate {
        guard reaches(index) else { return trouble(.unsent) }
        guard world.options.hasFaults, world.isLoading, !world.isHealing else { return .works }
        switch call {
        case .append:
            if world.chance(world.options.refusedPerMille) { return trouble(.refused) }
            if world.chance(world.options.unknownPerMille) {
                return trouble([.requestLost, .replyLost, .late][Int(world.roll(3))])
            }
        case .write, .read:
            if world.chance(world.options.failedPerMille) {
                let lost = call == .write ? [Fate.requestLost, .replyLost][Int(world.roll(2))] : .requestLost
                // A node that cannot renew its lease may be fenced.
                world.hinder(index, until: world.now + .seconds(2))
                return trouble(lost)
            }
        }
        return .works
    }

    private func trouble(_ fate: Fate) -> Fate {
        world.trouble()
        return fate
    }

    // MARK: Appending

    func append(session: SessionID, batch: BatchID, rows: [Row], _ fate: Fate) -> AppendOutcome {
        switch fate {
        case .unsent: return .refused("cannot reach the database")
        case .refused: return .refused("the database's disk is full")
        case .requestLost: return .unknown("the request was lost")
        // Nothing is under way between a process and its own disk.
        case .late where world.options.isLone: return .unknown("the disk failed")
        case .late:
            world.after(world.roll(.milliseconds(700)), .database) {
                guard !self.isAway else { return }
                _ = self.commit(session, batch, rows: rows)
            }
            return .unknown("the request is late")
        case .replyLost:
            engine.faults = [.loseReply]
            return commit(session, batch, rows: rows)
        case .works: return commit(session, batch, rows: rows)
        }
    }

    private func commit(_ session: SessionID, _ batch: BatchID, rows: [Row]) -> AppendOutcome {
        #if DEBUG
            if world.options.plantedInCluster.contains(.appendUnchecked),
                (try? engine.isAlive(session)) == false
            {
                return commitUnchecked(batch, rows, by: session)
            }
        #endif
        let before = rows.map { (try? engine.look($0.partition, $0.sequence)) ?? nil }
        let outcome = engine.append(session: session, batch: batch, rows: rows)
        for (row, former) in zip(rows, before) where former == nil {
            if (try? engine.look(row.partition, row.sequence)) == batch { audit(row, by: session) }
        }
        return outcome
    }

    #if DEBUG
        /// The planted bug: records of a dead session go in.
        private func commitUnchecked(
            _ batch: BatchID, _ rows: [Row], by session: SessionID
        ) -> AppendOutcome {
            let outcomes = engine.appendUnchecked(batch: batch, rows: rows)
            for (row, outcome) in zip(rows, outcomes) where outcome == .appended { audit(row, by: session) }
            return .rows(outcomes)
        }
    #endif

    // MARK: Other calls

    func perform(
        _ call: DatabaseCall, for caller: DatabaseCall.Caller, _ process: SimulatedProcess,
        clock: () -> Instant
    ) throws -> DatabaseAnswer {
        #if DEBUG
            if case .fence(let session, _) = call, world.options.plantedInCluster.contains(.skipFence) {
                for row in try engine.partitions() where row.owner == session {
                    try engine.release(row.id, by: session)
                }
                return DatabaseAnswer([.fenced(session)])
            }
        #endif
        engine.clock = world.wall
        engine.hidesNewestSnapshots =
            world.isLoading && !world.isHealing && world.chance(world.options.unreadablePerMille)
        defer { engine.hidesNewestSnapshots = false }
        // Several nodes may fence a session for the same reason. The second fence may come late, and ends
        // nothing.
        var wasAlive = true
        if case .fence(let session, _) = call { wasAlive = try engine.isAlive(session) }
        let answer = try call.perform(on: engine, for: caller, clock: clock)
        for event in answer.events {
            switch event {
            case .fenced(let session): if wasAlive { world.fenced(session, by: process.index) }
            case .ownership(.taken(let id, _?)): try taken(id, by: caller.session)
            case .ownership(.released(let id)): releases.insert(id)
            default: break
            }
        }
        return answer
    }

    /// G5: only a previous owner that is dead, or has given the partition up, loses it.
    func taken(_ id: PartitionID, by session: SessionID) throws {
        let number = Int(id.rawValue)
        if let former = owners[number], former != session, !releases.contains(id),
            (try? engine.isAlive(former)) == true
        {
            world.violate(
                "G5", "partition \(number) is taken from session \(former.rawValue), which lives")
        }
        releases.remove(id)
        owners[number] = session
        for barrier in try engine.read(id, rows: [engine.lastSequence(id)]) { audit(barrier, by: session) }
    }

    /// The database crashes and starts again; records that it never acknowledged may be gone.
    func crash(keepsUnacknowledged: Bool) {
        engine.crash(keepsUnacknowledged: keepsUnacknowledged)
        for index in past.indices {
            let id = PartitionID(UInt16(index))
            let last = (try? engine.lastSequence(id)) ?? .zero
            while let entry = past[index].last, entry.sequence > last { past[index].removeLast() }
        }
    }

    // MARK: The auditor (G5)

    /// A record went in: its sequence must follow, its epoch not fall, its session live and own the
    /// partition.
    private func audit(_ row: Row, by session: SessionID) {
        let number = Int(row.partition.rawValue)
        world.observer?.stores(row, in: self)
        world.note(row.sequence.rawValue ^ UInt64(number) << 40 ^ session.rawValue << 48)
        guard let record = try? RecordCodec.decode(row.payload, expecting: row.partition, row.sequence),
            let owned = self.row(row.partition)
        else { return world.violate("G5", "partition \(number): a record that cannot be read") }
        let last = past[number].last
        let what = "partition \(number): record \(row.sequence.rawValue) of session \(session.rawValue)"
        if row.sequence != (last?.sequence ?? .zero).next {
            world.violate("G5", "\(what) stands behind \(last?.sequence.rawValue ?? 0)")
        }
        if let last, record.header.epoch < last.epoch {
            world.violate("G5", "\(what) has the epoch before the last one's")
        }
        if owned.owner != session || owned.epoch != record.header.epoch {
            world.violate(
                "G5",
                "\(what), epoch \(record.header.epoch.rawValue): owned by session"
                    + " \(owned.owner?.rawValue ?? 0) since \(owned.epoch.rawValue)")
        }
        if (try? engine.isAlive(session)) != true { world.violate("G5", "\(what), which was fenced") }
        past[number].append(
            Entry(
                sequence: row.sequence, epoch: record.header.epoch, body: keepsPast ? record.body : []))
        if !keepsPast, past[number].count > 2 * SimulatedDatabase.pastMin {
            past[number].removeFirst(SimulatedDatabase.pastMin)
        }
    }

    /// All records of a partition since its beginning; empty if they are not kept.
    func records(of id: PartitionID) -> [StoredRecord] {
        keepsPast
            ? past[Int(id.rawValue)].map {
                StoredRecord(sequence: $0.sequence, epoch: $0.epoch, body: $0.body)
            } : []
    }
}
