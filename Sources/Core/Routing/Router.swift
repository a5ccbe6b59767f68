import Model
import Partitions
import Placement
import Quotas

/// The effects of a router. `ticket` is the number that the caller of `submit` chose for the operation.
public enum RouterEffect: Sendable {
    /// The owner must carry the request out before the deadline, or not at all.
    case ask(PartitionID, RequestID, Request, Deadline)
    case finish(ticket: UInt64, Outcome)
    case wake(at: MonotonicTime)
    /// To the owner of the project's home partition, which keeps these buckets.
    case quota(QuotaRequest)
    /// Call `quotaWoke` then.
    case wakeQuota(at: MonotonicTime)
    /// Call `retryMoved` then.
    case wakeRetry(at: MonotonicTime)
}

/// Turns the operations of one gateway loop into requests of partitions, and their replies into outcomes.
///
/// The router decides to which partition a request goes, and takes tokens from the project's buckets before
/// it asks. It splits an operation that concerns several partitions, and joins their answers in the caller's
/// order. It holds each operation to its deadline: a send whose fate is not known by then is
/// `deadlineExceeded`, which no SDK repeats by itself, anything else `unavailable`, which is safe to repeat.
///
/// Confined to one loop. Random bits for new devices come from the generator that is handed in.
public final class Router {
    public struct Options: Sendable {
        public var partitionCount: Int
        public var gateway: GatewayID
        /// One run of this loop: request numbers mean something only within it.
        public var session: UInt64
        public var bounds = RouterBounds()
        /// How many of the last numbers of this loop's sends a partition remembers
        /// (`PartitionOptions.requestWindow`). After a silence the router leaves a send alone that is more
        /// than half as far behind: "too old to tell" would be worse than waiting.
        public var requestWindow = StoredRules.requestWindow
        /// In a cluster partitions move: the router asks again, within the deadline, for a request that
        /// reached no owner or got no answer (rule: numbers-for-copies-only).
        public var isClustered = false
        public init(partitionCount: Int, gateway: GatewayID, session: UInt64) {
            self.partitionCount = partitionCount
            self.gateway = gateway
            self.session = session
        }

        /// Requests under way: the last operation may be a change that is split by partition, and the whole
        /// change has a slot too.
        var requestsMax: Int { bounds.operationsMax + partitionCount }
    }

    typealias Turn = Model.Turn<Instant, RouterEffect>

    let options: Options
    public var admission: Admission
    var random: any RandomNumberGenerator
    var pending: PendingTable
    /// Numbers rise with time, so one deadline for each `deadlineStep` covers all requests of that time.
    var deadlines: [(at: MonotonicTime, upTo: UInt64)] = []
    /// The last number of a send to each partition. The numbers are dense, so that a partition's window of
    /// them covers a long time.
    var sendNumbers: [UInt64]
    var placements: [UInt32: DevicePlacement] = [:]
    /// Projects that have all the devices that they may have, and when the router asks their partitions
    /// again.
    var fullUntil: [UInt32: MonotonicTime] = [:]
    var wakeAt: MonotonicTime?
    /// Requests that wait for their partition to have an owner, by partition.
    var waitingRequests: [PartitionID: WaitingRequests] = [:]
    var retryAt: MonotonicTime?
    var lines: [LineKey: WaitingLine] = [:]
    /// Whether the home database is away, without which no owner of buckets grants.
    public var isHomeAway = false
    public var invariantSchedule = InvariantSchedule()

    /// A request of one partition that is under way.
    struct Pending {
        enum Kind {
            case send
            case simple
            case register(project: ProjectNumber, DevicePlacement.Offer)
            /// One part of a `SplitChange`: `indices` of the whole.
            case part(of: UInt64, indices: [Int])
            case topics(project: ProjectNumber, limit: Int, found: [(name: TopicName, members: UInt64)])
            case devices(project: ProjectNumber, limit: Int, found: [DeviceSummary])
            case pushes(project: ProjectNumber, of: MessageID, found: [PushTally])
        }
        enum Phase {
            /// A process has the request. The router asked last at this time.
            case asked(at: MonotonicTime)
            /// No process has the request now: it waits in its partition's queue.
            case waiting
        }
        let ticket: UInt64
        let kind: Kind
        let partition: PartitionID
        let deadline: Deadline
        /// When the router asked the first request of the operation.
        let began: MonotonicTime
        /// For asking again; `nil` on a lone node.
        var request: Request?
        var phase: Phase
        /// How often the router asked again after a silence.
        var repeats: UInt8 = 0
        /// How many copies followed the first. A send's copy counts only if an owner may have accepted an
        /// earlier one: then the refusal of one owner decides nothing for the others.
        var copies: UInt8 = 0
        var isRepeated: Bool { copies > 0 }
        /// How many copies an owner may have looked at: those that were asked and not answered "moved". At
        /// its highest it stays there.
        var unanswered: UInt8 = 1
        var isSend: Bool { if case .send = kind { true } else { false } }
        var isWaiting: Bool { if case .waiting = phase { true } else { false } }
    }

    /// A change that was split by partition. Each part is its own request.
    struct SplitChange {
        let ticket: UInt64
        var outcomes: [ChangeOutcome?]
        var partsLeft: Int
    }

    public init(options: Options, admission: Admission, random: any RandomNumberGenerator) {
        self.options = options
        self.admission = admission
        self.random = random
        pending = PendingTable(capacity: options.requestsMax)
        sendNumbers = Array(repeating: 0, count: options.partitionCount)
    }

    // MARK: In

    /// Handles one event.
    @inline(__always)
    func handle(_ now: Instant, into effects: inout [RouterEffect], _ event: (inout Turn) -> Void) {
        var turn = Turn(at: now, &effects)
        event(&turn)
        turn.end(&effects)
        checkInvariants()
    }

    public func submit(
        _ operation: Operation, ticket: UInt64, now: Instant, into effects: inout [RouterEffect]
    ) {
        handle(now, into: &effects) { submit(operation, ticket: ticket, since: now.monotonic, &$0) }
    }

    /// Why the quota would refuse a send of the project, if that is certain: then the gateway need not read
    /// the send's content.
    public func refusalOfSend(in project: ProjectNumber, now: Instant) -> QuotaRefusal? {
        admission.refusal(of: .sends, project, now: now.monotonic)
    }

    /// The same of a change of subscriptions.
    public func refusalOfChange(in project: ProjectNumber, now: Instant) -> QuotaRefusal? {
        admission.refusal(of: .subscriptionChanges, project, now: now.monotonic)
    }

    /// `since`: when the operation came.
    func submit(_ operation: Operation, ticket: UInt64, since: MonotonicTime, _ turn: inout Turn) {
        guard pending.count < options.bounds.operationsMax else {
            return turn.finish(ticket, .refused(.unavailable(Router.tooMany)))
        }
        // Operations that waited for quota and go on now come behind this one, and find its request counted.
        defer { if !admission.effects.isEmpty { carryOutQuota(&turn) } }
        switch operation {
        case .send(let send):
            let project = send.project
            if admit(1, of: .sends, in: project, for: operation, ticket: ticket, since: since, &turn) != nil {
                route(send, ticket: ticket, &turn)
            }
        case .refusedSend(let project):
            if admit(1, of: .sends, in: project, for: operation, ticket: ticket, since: since, &turn) != nil {
                turn.finish(ticket, .done)
            }
        case .refusedChanges(let project, let count):
            let granted = admit(
                count, of: .subscriptionChanges, in: project, for: operation, ticket: ticket, since: since,
                &turn)
            if granted != nil { turn.finish(ticket, .done) }
        case .changeSubscriptions(let change):
            let wanted = change.devices.count + change.falseTokens
            guard
                let granted = admit(
                    wanted, of: .subscriptionChanges, in: change.project, for: operation, ticket: ticket,
                    since: since, &turn)
            else { return }
            split(change, granted: min(granted, change.devices.count), ticket: ticket, &turn)
        case .register(let project):
            let granted = admit(
                1, of: .registrations, in: project, for: operation, ticket: ticket, since: since, &turn)
            if granted != nil { register(project, ticket: ticket, &turn) }
        case .setTransport(let device, _, _), .endTransport(let device, _, _):
            // Each makes a record, as a subscription change does, and an app's public key is enough for both.
            let granted = admit(
                1, of: .subscriptionChanges, in: device.project, for: operation, ticket: ticket, since: since,
                &turn)
            if granted != nil { askOne(operation, ticket: ticket, &turn) }
        case .subscriptions, .subscription, .unregister, .unregisterUnused, .acknowledge, .topic, .device:
            askOne(operation, ticket: ticket, &turn)
        case .topics(let project, let page, let limit):
            let from = page ?? PageToken(partition: PartitionID(0), cursor: 0)
            list(.topics(project: project, limit: limit, found: []), from: from, ticket: ticket, &turn)
        case .devices(let project, let page, let limit):
            let from = page ?? PageToken(partition: PartitionID(0), cursor: 0)
            list(.devices(project: project, limit: limit, found: []), from: from, ticket: ticket, &turn)
        case .pushes(let project, let message):
            let first = PageToken(partition: PartitionID(0), cursor: 0)
            list(.pushes(project: project, of: message, found: []), from: first, ticket: ticket, &turn)
        }
    }

    private func askOne(_ operation: Operation, ticket: UInt64, _ turn: inout Turn) {
        guard let (request, partition) = operation.question(options.partitionCount) else { return }
        ask(request, of: partition, ticket: ticket, kind: .simple, &turn)
    }

    /// How many tokens were taken; `nil` if the operation was refused or waits.
    private func admit(
        _ count: Int, of kind: QuotaKind, in project: ProjectNumber, for operation: Operation,
        ticket: UInt64, since: MonotonicTime, _ turn: inout Turn
    ) -> Int? {
        let decision = admission.take(count, kind, of: project, now: turn.now.monotonic)
        switch decision {
        case .admitted(let taken): return taken
        case .refused(let refusal): turn.finish(ticket, .refused(.quota(refusal)))
        case .unanswered: turn.finish(ticket, unanswered)
        case .wait(let until):
            let key = LineKey(project: project, kind: kind)
            if !wait(operation, ticket: ticket, in: key, until: until, since: since) {
                turn.finish(ticket, .refused(.unavailable(Router.tooManyWait)))
            }
        }
        return nil
    }

    private func route(_ send: Send, ticket: UInt64, _ turn: inout Turn) {
        let fanoutsMax = Int(admission.limits(of: send.project).fanouts)
        switch send.target {
        case .device(let registration):
            if send.validateOnly {
                return ask(
                    .check(registration, by: .backend), of: registration.partition, ticket: ticket,
                    kind: .send, &turn)
            }
            let key = nextKey(registration.partition)
            ask(
                .sendToDevice(key, registration, send.message), of: registration.partition, ticket: ticket,
                kind: .send, &turn)
        case _ where send.validateOnly:
            turn.finish(ticket, .done)
        case .topic(let topic):
            let home = Placement.partition(of: topic, in: send.project, count: options.partitionCount)
            let request = Request.sendToTopic(
                nextKey(home), project: send.project, topic, send.message, fanoutsMax: fanoutsMax)
            ask(request, of: home, ticket: ticket, kind: .send, &turn)
        case .condition(let condition):
            let home = Placement.partition(
                of: condition.topics[0], in: send.project, count: options.partitionCount)
            let request = Request.sendToCondition(
                nextKey(home), project: send.project, condition, send.message, fanoutsMax: fanoutsMax)
            ask(request, of: home, ticket: ticket, kind: .send, &turn)
        }
    }

    func nextKey(_ partition: PartitionID) -> RequestKey {
        sendNumbers[Int(partition.rawValue)] += 1
        return RequestKey(session: options.session, number: sendNumbers[Int(partition.rawValue)])
    }

    /// Takes back the last number that was given: no partition has seen it.
    func takeBack(_ key: RequestKey, of partition: PartitionID) {
        precondition(sendNumbers[Int(partition.rawValue)] == key.number, "a number that is not the last")
        sendNumbers[Int(partition.rawValue)] -= 1
    }

    /// Splits a change by the partitions of its devices. The router takes tokens for as many devices as the
    /// bucket holds, and refuses the rest one by one.
    private func split(_ change: SubscriptionChange, granted: Int, ticket: UInt64, _ turn: inout Turn) {
        let wanted = change.devices.count
        guard wanted > 0 else { return turn.finish(ticket, .changes([])) }
        guard change.devices.allSatisfy({ Int($0.partition.rawValue) < options.partitionCount }) else {
            return turn.finish(ticket, .refused(.unavailable("no such partition")))
        }
        var outcomes: [ChangeOutcome?] = Array(repeating: nil, count: wanted)
        if granted < wanted {
            let limit = admission.limits(of: change.project).subscriptionChanges.perSecond
            let refusal = QuotaRefusal(kind: .subscriptionChanges, limit: limit, retryDelay: .seconds(1))
            for index in granted..<wanted { outcomes[index] = .refused(.quota(refusal)) }
        }
        var parts: [PartitionID: [Int]] = [:]
        for index in 0..<granted { parts[change.devices[index].partition, default: []].append(index) }
        let whole = pending.add(SplitChange(ticket: ticket, outcomes: outcomes, partsLeft: parts.count))
        for partition in parts.keys.sorted() {
            guard let indices = parts[partition] else { continue }
            let devices =
                parts.count == 1 && granted == wanted ? change.devices : indices.map { change.devices[$0] }
            let request = Request.change(
                change.kind, project: change.project, topic: change.topic, devices: devices, by: change.caller
            )
            ask(request, of: partition, ticket: ticket, kind: .part(of: whole, indices: indices), &turn)
        }
    }

    func ask(
        _ request: Request, of partition: PartitionID, ticket: UInt64, kind: Pending.Kind,
        since began: MonotonicTime? = nil, _ turn: inout Turn
    ) {
        guard Int(partition.rawValue) < options.partitionCount else {
            // The id was deciphered under a right key, so this cluster created it once, with data of more
            // partitions.
            return turn.finish(ticket, .refused(.unavailable("no such partition")))
        }
        let began = began ?? turn.now.monotonic
        guard turn.now.monotonic.since(began) < options.bounds.deadline else {
            return turn.finish(ticket, .refused(Router.late))
        }
        let deadline = Deadline(began.advanced(by: options.bounds.deadline))
        let number = pending.add(
            Pending(
                ticket: ticket, kind: kind, partition: partition, deadline: deadline, began: began,
                request: options.isClustered ? request : nil, phase: .asked(at: turn.now.monotonic)))
        note(number, &turn)
        if options.isClustered {
            listenForSilence(&turn)
            if !waitingRequests.isEmpty, waits(number, for: partition, &turn) { return }
        }
        turn.effects.append(
            .ask(partition, RequestID(gateway: options.gateway, number: number), request, deadline))
    }

    // MARK: Time

    private func note(_ number: UInt64, _ turn: inout Turn) {
        let at = turn.now.monotonic.advanced(by: options.bounds.deadline)
        if let last = deadlines.last, at.since(last.at) < options.bounds.deadlineStep {
            deadlines[deadlines.count - 1].upTo = number
        } else {
            deadlines.append((at, number))
            scheduleWake(&turn)
        }
    }

    /// Ends requests that are past their deadline, at most a step late.
    public func woke(now: Instant, into effects: inout [RouterEffect]) {
        handle(now, into: &effects) { expireDue(&$0) }
    }

    private func expireDue(_ turn: inout Turn) {
        wakeAt = nil
        let due = deadlines.prefix { $0.at.advanced(by: options.bounds.deadlineStep) <= turn.now.monotonic }
        if let last = due.last {
            deadlines.removeFirst(due.count)
            for number in pending.numbers(upTo: last.upTo) { expire(number, &turn) }
        }
        scheduleWake(&turn)
    }

    static let tooMany = "too many operations are under way"
    static let tooManyWait = "too many operations wait for tokens of the quota"
    static let quotaUnanswered = "the quota's owner does not answer"
    static let homeAway = "the database cannot be reached"
    var unanswered: Outcome { .refused(.unavailable(isHomeAway ? Router.homeAway : Router.quotaUnanswered)) }
    /// Reasons of refusals for want of tokens or of room at the gateway.
    public static let scarcities: Set = [tooMany, tooManyWait, quotaUnanswered, homeAway]
    static let late = Refusal.unavailable("no owner answered in time")

    func expire(_ number: UInt64, _ turn: inout Turn) {
        // A split change ends with its parts.
        guard let late = pending.remove(number) else { return }
        switch late.kind {
        // No owner has looked at the send: it is surely not done.
        case .send where late.unanswered == 0:
            turn.finish(late.ticket, .refused(Router.late))
        case .send: turn.finish(late.ticket, .refused(.deadlineExceeded))
        case .part(let whole, _):
            if pending.removeChange(whole) != nil { turn.finish(late.ticket, .refused(Router.late)) }
        default: turn.finish(late.ticket, .refused(Router.late))
        }
    }

    private func scheduleWake(_ turn: inout Turn) {
        guard wakeAt == nil, let first = deadlines.first else { return }
        let at = first.at.advanced(by: options.bounds.deadlineStep)
        wakeAt = at
        turn.effects.append(.wake(at: at))
    }
}

extension Turn<Instant, RouterEffect> {
    mutating func finish(_ ticket: UInt64, _ outcome: Outcome) {
        effects.append(.finish(ticket: ticket, outcome))
    }
}
