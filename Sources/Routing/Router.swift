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
/// The router decides to which partition a request goes, splits an operation that concerns several partitions
/// and joins their answers in the caller's order, and takes tokens from the project's buckets before it asks.
/// It holds each operation to its deadline: a send whose fate is not known by then is `deadlineExceeded`,
/// which no SDK repeats by itself, anything else `unavailable`, which is safe to repeat.
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
        public var requestWindow = 1024
        /// In a cluster partitions move: the router asks again, within the deadline, for a request that
        /// reached no owner or got no answer (rule: numbers-for-copies-only).
        public var isClustered = false
        public init(partitionCount: Int, gateway: GatewayID, session: UInt64) {
            self.partitionCount = partitionCount
            self.gateway = gateway
            self.session = session
        }

        /// Requests under way: the last operation may be a change that is split by partition, and the whole
        /// change has a place too.
        var requestsMax: Int { bounds.operationsMax + partitionCount }
    }

    let options: Options
    public var admission: Admission
    var random: any RandomNumberGenerator
    var pending: PendingTable
    /// Numbers rise with time, so one deadline for each `deadlineStep` stands for all requests of that time.
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
    public var laws = LawWatch()

    struct Pending {
        enum Kind {
            case send
            case simple
            case register(project: ProjectNumber, DevicePlacement.Offer)
            /// One part of a change that was split by partition: `places` of the whole.
            case part(of: UInt64, places: [Int])
            /// The whole change.
            case whole(outcomes: [ChangeOutcome?], partsLeft: Int)
            case topics(project: ProjectNumber, limit: Int, found: [(name: TopicName, members: UInt64)])
            case devices(project: ProjectNumber, limit: Int, found: [DeviceSummary])
        }
        var ticket: UInt64
        var kind: Kind
        var partition: PartitionID
        var deadline = Deadline(MonotonicTime(nanoseconds: 0))
        /// When the router asked the first request of the operation.
        var began = MonotonicTime(nanoseconds: 0)
        /// For asking again; `nil` on a node of its own.
        var request: Request?
        var tries: UInt8 = 0
        /// When the router asked last, and how often it asked again after a silence.
        var asked = MonotonicTime(nanoseconds: 0)
        var repeats: UInt8 = 0
        /// How many copies followed the first. A send's copy counts only where an owner may have accepted an
        /// earlier one: then the refusal of one owner says nothing of the others.
        var copies: UInt8 = 0
        var isRepeated: Bool { copies > 0 }
        /// How many copies an owner may have looked at: those that were asked and not answered "moved". At
        /// its highest it stays there.
        var unanswered: UInt8 = 1
        var isSend: Bool { if case .send = kind { true } else { false } }
        /// No process has the request now: it waits in its partition's queue.
        var isWaiting = false
    }

    public init(options: Options, admission: Admission, random: any RandomNumberGenerator) {
        self.options = options
        self.admission = admission
        self.random = random
        pending = PendingTable(capacity: options.requestsMax)
        sendNumbers = Array(repeating: 0, count: options.partitionCount)
    }

    public var operationCount: Int { pending.count }

    // MARK: In

    public func submit(
        _ operation: Operation, ticket: UInt64, now: Instant, into effects: inout [RouterEffect]
    ) {
        submit(operation, ticket, since: now.monotonic, now, &effects)
        checkInvariants()
    }

    /// Why the quota would refuse a send of the project, if that is certain: then the gateway need not read
    /// the send's content.
    public func refusalOfSend(in project: ProjectNumber, now: Instant) -> QuotaRefusal? {
        admission.refusal(of: .sends, project, now: now.monotonic)
    }

    /// `since`: when the operation came.
    func submit(
        _ operation: Operation, _ ticket: UInt64, since: MonotonicTime, _ now: Instant,
        _ effects: inout [RouterEffect]
    ) {
        guard pending.count < options.bounds.operationsMax else {
            return finish(ticket, .refused(.unavailable(Router.tooMany)), &effects)
        }
        // Operations that waited for quota and go on now come behind this one, and find its request counted.
        defer { if !admission.effects.isEmpty { carryOutQuota(now, &effects) } }
        switch operation {
        case .send(let send):
            if admit(1, .sends, send.project, operation, ticket, since, now, &effects) != nil {
                submit(send, ticket, now, &effects)
            }
        case .refusedSend(let project):
            if admit(1, .sends, project, operation, ticket, since, now, &effects) != nil {
                finish(ticket, .done, &effects)
            }
        case .changeSubscriptions(let change):
            let wanted = change.devices.count
            guard
                let granted = admit(
                    wanted, .subscriptionChanges, change.project, operation, ticket, since, now, &effects)
            else { return }
            submit(change, granted, ticket, now, &effects)
        case .subscriptions(let registration, let caller):
            ask(
                registration.partition, .subscriptions(of: registration, by: caller), ticket, .simple, now,
                &effects)
        case .register(let project):
            if admit(1, .registrations, project, operation, ticket, since, now, &effects) != nil {
                register(project, ticket, now, &effects)
            }
        case .unregister(let registration, let caller):
            ask(registration.partition, .unregister(registration, by: caller), ticket, .simple, now, &effects)
        case .acknowledge(let registration, let caller, let event):
            ask(
                registration.partition, .acknowledge(registration, by: caller, event), ticket, .simple, now,
                &effects)
        case .topic(let project, let name):
            let home = Placement.partition(of: name, in: project, count: options.partitionCount)
            ask(home, .members(project: project, name), ticket, .simple, now, &effects)
        case .topics(let project, let page, let limit):
            let from = page ?? PageToken(partition: PartitionID(0), place: 0)
            list(.topics(project: project, limit: limit, found: []), from, ticket, now, &effects)
        case .devices(let project, let page, let limit):
            let from = page ?? PageToken(partition: PartitionID(0), place: 0)
            list(.devices(project: project, limit: limit, found: []), from, ticket, now, &effects)
        }
    }

    /// How many tokens were taken; `nil` where the operation was refused or waits.
    private func admit(
        _ count: Int, _ kind: QuotaKind, _ project: ProjectNumber, _ operation: Operation, _ ticket: UInt64,
        _ since: MonotonicTime, _ now: Instant, _ effects: inout [RouterEffect]
    ) -> Int? {
        let decision = admission.take(count, kind, of: project, now: now.monotonic)
        switch decision {
        case .admitted(let taken): return taken
        case .refused(let refusal): finish(ticket, .refused(.quota(refusal)), &effects)
        case .unanswered:
            finish(ticket, .refused(.unavailable(Router.quotaUnanswered)), &effects)
        case .wait(let until):
            if !wait(operation, ticket, kind, project, until: until, since: since) {
                finish(ticket, .refused(.unavailable(Router.tooManyWait)), &effects)
            }
        }
        return nil
    }

    private func submit(_ send: Send, _ ticket: UInt64, _ now: Instant, _ effects: inout [RouterEffect]) {
        let fanoutsMax = Int(admission.limits(of: send.project).fanouts)
        switch send.target {
        case .device(let registration):
            if send.validateOnly {
                return ask(
                    registration.partition, .check(registration, by: .backend), ticket, .send, now, &effects)
            }
            let key = nextKey(registration.partition)
            ask(
                registration.partition, .sendToDevice(key, registration, send.message), ticket, .send, now,
                &effects)
        case _ where send.validateOnly:
            finish(ticket, .done, &effects)
        case .topic(let topic):
            let home = Placement.partition(of: topic, in: send.project, count: options.partitionCount)
            let request = Request.sendToTopic(
                nextKey(home), project: send.project, topic, send.message, fanoutsMax: fanoutsMax)
            ask(home, request, ticket, .send, now, &effects)
        case .condition(let condition):
            let home = Placement.partition(
                of: condition.topics[0], in: send.project, count: options.partitionCount)
            let request = Request.sendToCondition(
                nextKey(home), project: send.project, condition, send.message, fanoutsMax: fanoutsMax)
            ask(home, request, ticket, .send, now, &effects)
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
    private func submit(
        _ change: SubscriptionChange, _ granted: Int, _ ticket: UInt64, _ now: Instant,
        _ effects: inout [RouterEffect]
    ) {
        let wanted = change.devices.count
        guard wanted > 0 else { return finish(ticket, .changes([]), &effects) }
        guard change.devices.allSatisfy({ Int($0.partition.rawValue) < options.partitionCount }) else {
            return finish(ticket, .refused(.unavailable("no such partition")), &effects)
        }
        var outcomes: [ChangeOutcome?] = Array(repeating: nil, count: wanted)
        if granted < wanted {
            let limit = admission.limits(of: change.project).subscriptionChanges.perSecond
            let refusal = QuotaRefusal(kind: .subscriptionChanges, limit: limit, retryDelay: .seconds(1))
            for place in granted..<wanted { outcomes[place] = .refused(.quota(refusal)) }
        }
        var parts: [PartitionID: [Int]] = [:]
        for place in 0..<granted { parts[change.devices[place].partition, default: []].append(place) }
        let whole = pending.add(
            Pending(
                ticket: ticket, kind: .whole(outcomes: outcomes, partsLeft: parts.count),
                partition: PartitionID(0)))
        for partition in parts.keys.sorted() {
            guard let places = parts[partition] else { continue }
            let devices =
                parts.count == 1 && granted == wanted ? change.devices : places.map { change.devices[$0] }
            let request = Request.change(
                change.kind, project: change.project, topic: change.topic, devices: devices, by: change.caller
            )
            ask(partition, request, ticket, .part(of: whole, places: places), now, &effects)
        }
    }

    func ask(
        _ partition: PartitionID, _ request: Request, _ ticket: UInt64, _ kind: Pending.Kind,
        since began: MonotonicTime? = nil, _ now: Instant, _ effects: inout [RouterEffect]
    ) {
        guard Int(partition.rawValue) < options.partitionCount else {
            // The id was deciphered under a right key, so this cluster made it once, with data of more
            // partitions.
            return finish(ticket, .refused(.unavailable("no such partition")), &effects)
        }
        let began = began ?? now.monotonic
        guard now.monotonic.since(began) < options.bounds.deadline else {
            return finish(ticket, .refused(Router.late), &effects)
        }
        let deadline = Deadline(began.advanced(by: options.bounds.deadline))
        let number = pending.add(
            Pending(
                ticket: ticket, kind: kind, partition: partition, deadline: deadline, began: began,
                request: options.isClustered ? request : nil, asked: now.monotonic))
        note(number, now, &effects)
        if options.isClustered {
            listenForSilence(now, &effects)
            if !waitingRequests.isEmpty, waits(number, for: partition, now, &effects) { return }
        }
        effects.append(
            .ask(partition, RequestID(gateway: options.gateway, number: number), request, deadline))
    }

    func finish(_ ticket: UInt64, _ outcome: Outcome, _ effects: inout [RouterEffect]) {
        effects.append(.finish(ticket: ticket, outcome))
    }

    // MARK: Time

    private func note(_ number: UInt64, _ now: Instant, _ effects: inout [RouterEffect]) {
        let at = now.monotonic.advanced(by: options.bounds.deadline)
        if let last = deadlines.last, at.since(last.at) < options.bounds.deadlineStep {
            deadlines[deadlines.count - 1].upTo = number
        } else {
            deadlines.append((at, number))
            scheduleWake(&effects)
        }
    }

    /// Ends requests that are past their deadline, at most a step late.
    public func woke(now: Instant, into effects: inout [RouterEffect]) {
        defer { checkInvariants() }
        wakeAt = nil
        let due = deadlines.prefix { $0.at.advanced(by: options.bounds.deadlineStep) <= now.monotonic }
        if let last = due.last {
            deadlines.removeFirst(due.count)
            for number in pending.numbers(upTo: last.upTo) { expire(number, &effects) }
        }
        scheduleWake(&effects)
    }

    static let tooMany = "too many operations are under way"
    static let tooManyWait = "too many operations wait for quota"
    static let quotaUnanswered = "the quota's owner does not answer"
    /// Reasons of refusals for want of tokens or of room at the gateway.
    public static let scarcities: Set = [tooMany, tooManyWait, quotaUnanswered]
    private static let late = Refusal.unavailable("not answered in time")

    func expire(_ number: UInt64, _ effects: inout [RouterEffect]) {
        guard let late = pending[number] else { return }
        // A whole change ends with its parts.
        if case .whole = late.kind { return }
        pending.remove(number)
        switch late.kind {
        // No owner has looked at the send: it is surely not done.
        case .send where late.unanswered == 0:
            finish(late.ticket, .refused(Router.late), &effects)
        case .send: finish(late.ticket, .refused(.deadlineExceeded), &effects)
        case .part(let whole, _):
            if pending.remove(whole) != nil {
                finish(late.ticket, .refused(Router.late), &effects)
            }
        default: finish(late.ticket, .refused(Router.late), &effects)
        }
    }

    private func scheduleWake(_ effects: inout [RouterEffect]) {
        guard wakeAt == nil, let first = deadlines.first else { return }
        let at = first.at.advanced(by: options.bounds.deadlineStep)
        wakeAt = at
        effects.append(.wake(at: at))
    }
}
