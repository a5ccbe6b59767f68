import Model
import RegistrationIDs
import Routing

/// One connection of a user agent to a project that is a push service: a machine without I/O.
///
/// A user agent is a device of the project, its channels are the device's topics, and the connection is the
/// device's stream: what the device has not acknowledged comes again on its next connection. The log
/// acknowledges up to a position, and user agents acknowledge single notifications. So the session keeps the
/// notifications that the user agent has, in their order, and acknowledges as far as all are acknowledged.
public struct PushSession {
    /// Codes with which the server ends a connection (RFC 6455 §7.4, and autopush's own).
    public enum Code {
        public static let goingAway: UInt16 = 1001
        public static let protocolError: UInt16 = 1002
        /// The user agent comes back, and may get another `uaid`.
        public static let restart: UInt16 = 1012
        public static let tryAgainLater: UInt16 = 1013
        /// Firefox does not come back by itself.
        public static let backOff: UInt16 = 4774
    }

    /// What the session waits for.
    public enum Work: Hashable, Sendable {
        case registration
        case register(ChannelID, keyHash: [UInt8]?)
        case unregister(ChannelID)
        case acknowledgement
        case farewell
    }

    public enum Effect: Sendable {
        case send([UInt8])
        case attach(Registration, DeviceMAC)
        /// The outcome must come back, with the same work.
        case operation(Operation, Work)
        case close(UInt16)
        /// The stream can take more.
        case drained
        case note(PushServiceNote)
    }

    /// Channels that may be created or ended at once.
    static let requestsMax = 32
    /// Notifications that a user agent may have without acknowledging them.
    static let outstandingMax = 1024
    /// Seconds between two pings of a user agent, as at Mozilla's service.
    static let pingSeconds: UInt64 = 45

    enum State: Hashable { case waiting, registering, attaching, open, ended }
    struct Notification: Hashable {
        var event: EventID
        var isAcknowledged = false
    }

    let project: ProjectNumber
    let identities: any PushIdentities
    var state = State.waiting
    private var device: Registration?
    private var credential: DeviceMAC?
    private var userAgent: [UInt8] = []
    /// This session has created the device, and no channel was asked for. Firefox keeps no `uaid` without a
    /// channel, so the device ends with the connection.
    private(set) var isUnused = false
    private(set) var requests = 0
    private(set) var outstanding: [Notification] = []
    private var wasFull = false
    /// The newest event up to which all is acknowledged, of which the log does not know yet.
    private var owed: EventID?
    private(set) var isAcknowledging: EventID?
    private var pinged: MonotonicTime?

    /// The number of the registration key under which the user agent's device is.
    public var registrationKey: UInt8? { device?.key }

    init(project: ProjectNumber, identities: any PushIdentities) {
        self.project = project
        self.identities = identities
    }

    // MARK: From the user agent

    mutating func receive(_ message: PushServiceMessage, now: MonotonicTime, into effects: inout [Effect]) {
        guard state != .ended else { return }
        if case .hello(let userAgent) = message {
            guard state == .waiting else { return end(Code.protocolError, &effects) }
            return greet(userAgent, &effects)
        }
        // A user agent waits for the answer to its `hello`.
        guard state == .open else { return end(Code.protocolError, &effects) }
        switch message {
        case .hello, .ignored: break
        case .ping: ping(now, &effects)
        case .complaint: effects.append(.note(.complained))
        case .acknowledge(let updates): acknowledge(updates, &effects)
        case .invalid: end(Code.protocolError, &effects)
        case .register(let channel, .malformed):
            effects.append(.send(PushServiceAnswer.register(channel, status: 400)))
        case .register(let channel, .none): change(.subscribe, channel, into: &effects)
        case .register(let channel, .hash(let hash)):
            change(.subscribe, channel, keyHash: hash, into: &effects)
        case .unregister(let channel): change(.unsubscribe, channel, into: &effects)
        }
    }

    private mutating func greet(_ known: PushServiceMessage.UserAgent, _ effects: inout [Effect]) {
        switch known {
        case .new: register(&effects)
        case .unclear: end(Code.tryAgainLater, &effects)
        case .known(let device, let proof, let text):
            userAgent = text
            attach(device, proof, into: &effects)
        }
    }

    private mutating func register(_ effects: inout [Effect]) {
        state = .registering
        effects.append(.operation(.register(project: project), .registration))
    }

    private mutating func attach(
        _ device: Registration, _ proof: DeviceMAC, into effects: inout [Effect]
    ) {
        state = .attaching
        self.device = device
        credential = proof
        effects.append(.attach(device, proof))
    }

    private mutating func ping(_ now: MonotonicTime, _ effects: inout [Effect]) {
        if let pinged, now.since(pinged) < .seconds(PushSession.pingSeconds) {
            return end(Code.backOff, &effects)
        }
        pinged = now
        effects.append(.send(PushServiceAnswer.pong))
    }

    private mutating func change(
        _ kind: SubscriptionChange.Kind, _ channel: ChannelID, keyHash: [UInt8]? = nil,
        into effects: inout [Effect]
    ) {
        guard let device, let credential else { return }
        let isNew = kind == .subscribe
        guard requests < PushSession.requestsMax else {
            return effects.append(.send(PushSession.answer(isNew, channel, status: 503)))
        }
        requests += 1
        if isNew { isUnused = false }
        let change = SubscriptionChange(
            project: project, kind: kind, topic: PushSession.topic(of: channel), devices: [device],
            caller: .device(credential))
        effects.append(
            .operation(
                .changeSubscriptions(change),
                isNew ? .register(channel, keyHash: keyHash) : .unregister(channel)))
    }

    /// The device's topic for a channel.
    static func topic(of channel: ChannelID) -> TopicName { TopicName(checked: channel.text) }

    private static func answer(_ isNew: Bool, _ channel: ChannelID, status: Int) -> [UInt8] {
        isNew
            ? PushServiceAnswer.register(channel, status: status)
            : PushServiceAnswer.unregister(channel, status: status)
    }

    // MARK: Acknowledgements

    private mutating func acknowledge(
        _ updates: [PushServiceMessage.Update], _ effects: inout [Effect]
    ) {
        for update in updates {
            guard let event = update.event, let place = place(of: event), !outstanding[place].isAcknowledged
            else { continue }
            outstanding[place].isAcknowledged = true
            effects.append(.note(.acknowledged(PushServiceNote.Fate(code: update.code))))
        }
        settle(&effects)
    }

    /// Positions rise, so the place of an event is found by halves.
    private func place(of event: EventID) -> Int? {
        var low = 0
        var high = outstanding.count
        while low < high {
            let middle = (low + high) / 2
            if outstanding[middle].event.position < event.position { low = middle + 1 } else { high = middle }
        }
        return low < outstanding.count && outstanding[low].event == event ? low : nil
    }

    /// Acknowledges as far as all is acknowledged.
    private mutating func settle(_ effects: inout [Effect]) {
        let done = outstanding.prefix { $0.isAcknowledged }.count
        if done > 0 {
            owed = outstanding[done - 1].event
            outstanding.removeFirst(done)
        }
        if wasFull, outstanding.count <= PushSession.outstandingMax / 2 {
            wasFull = false
            effects.append(.drained)
        }
        tellLog(&effects)
    }

    private mutating func tellLog(_ effects: inout [Effect]) {
        guard isAcknowledging == nil, let device, let credential, let event = owed.take() else { return }
        isAcknowledging = event
        effects.append(
            .operation(.acknowledge(device, by: .device(credential), event), .acknowledgement))
    }

    // MARK: From the core

    /// An operation that the session asked for is finished.
    public mutating func finish(_ work: Work, _ outcome: Outcome, into effects: inout [Effect]) {
        switch work {
        case .registration: registered(outcome, &effects)
        case .register(let channel, let keyHash):
            requests -= 1
            registered(channel, keyHash: keyHash, by: outcome, into: &effects)
        case .unregister(let channel):
            requests -= 1
            guard state == .open else { return }
            let status = PushSession.status(outcome)
            if status == 410 { return end(Code.restart, &effects) }
            effects.append(.send(PushServiceAnswer.unregister(channel, status: status)))
        case .acknowledgement:
            let event = isAcknowledging.take()
            // The next acknowledgement, or the next tick, repeats it.
            if case .refused = outcome { return owed = owed ?? event }
            if state != .ended { tellLog(&effects) }
        case .farewell: break
        }
    }

    private mutating func registered(_ outcome: Outcome, _ effects: inout [Effect]) {
        guard case .registered(let new) = outcome, let (made, proof) = identities.device(new) else {
            if state == .registering { end(Code.tryAgainLater, &effects) }
            return
        }
        isUnused = true
        guard state == .registering else {
            (device, credential) = (made, proof)
            return leave(&effects)
        }
        userAgent = identities.userAgent(new)
        attach(made, proof, into: &effects)
    }

    private mutating func registered(
        _ channel: ChannelID, keyHash: [UInt8]?, by outcome: Outcome, into effects: inout [Effect]
    ) {
        guard state == .open, let device else { return }
        let status = PushSession.status(outcome)
        if status == 410 { return end(Code.restart, &effects) }
        let address = ChannelAddress(device: device, channel: channel, senderKeyHash: keyHash)
        let endpoint = status == 200 ? identities.endpoint(of: address) : []
        effects.append(.send(PushServiceAnswer.register(channel, status: status, endpoint: endpoint)))
        if status == 200 { effects.append(.note(.registered)) }
    }

    /// 410: the device has ended.
    private static func status(_ outcome: Outcome) -> Int {
        let refusal: Refusal
        switch outcome {
        case .changes(let changes):
            guard case .refused(let reason)? = changes.first else { return 200 }
            refusal = reason
        case .refused(let reason): refusal = reason
        default: return 500
        }
        switch refusal {
        case .unregistered, .invalidToken, .wrongCredential, .senderMismatch: return 410
        case .tooManyTopics, .quota: return 429
        case .unavailable, .deadlineExceeded, .pushKeyRefused: return 503
        }
    }

    /// The stream of the device has begun, or goes on at another owner.
    public mutating func open(into effects: inout [Effect]) {
        guard state == .attaching else { return }
        state = .open
        effects.append(.send(PushServiceAnswer.hello(userAgent)))
    }

    /// The stream of the device did not begin.
    public mutating func refuse(_ refusal: Refusal, into effects: inout [Effect]) {
        guard state == .attaching else { return end(Code.restart, &effects) }
        switch refusal {
        // The device has ended, or the credential was made up. The user agent gets another device, but never
        // two on one connection.
        case .unregistered, .invalidToken, .wrongCredential, .senderMismatch:
            guard !isUnused else { return end(Code.tryAgainLater, &effects) }
            (device, credential) = (nil, nil)
            register(&effects)
        case .tooManyTopics, .quota, .unavailable, .deadlineExceeded, .pushKeyRefused:
            end(Code.tryAgainLater, &effects)
        }
    }

    /// The device's log hands over an event, or reports a loss (`nil`). False if the session takes none for
    /// now.
    public mutating func deliver(_ event: [UInt8]?, _ id: EventID, into effects: inout [Effect]) -> Bool {
        guard state == .open, outstanding.count < PushSession.outstandingMax else {
            wasFull = true
            return false
        }
        if let frame = event.flatMap({ PushServiceEvent.notification($0, version: id) }) {
            outstanding.append(Notification(event: id))
            effects.append(.send(frame))
        } else {
            // A user agent knows no losses, and none of FCM's messages.
            effects.append(.note(event == nil ? .lost : .skipped))
            outstanding.append(Notification(event: id, isAcknowledged: true))
            settle(&effects)
        }
        return true
    }

    /// Runs every 25 s: repeats to the log what it has refused.
    public mutating func tick(into effects: inout [Effect]) {
        if state == .open { tellLog(&effects) }
    }

    // MARK: Ends

    mutating func end(_ code: UInt16, _ effects: inout [Effect]) {
        guard state != .ended else { return }
        let wasEnding = state
        state = .ended
        effects.append(.close(code))
        if wasEnding != .registering { leave(&effects) }
    }

    /// The server ends the connection.
    public mutating func end(_ code: UInt16, into effects: inout [Effect]) { end(code, &effects) }

    /// Another connection has the device's stream now, and the device is its own.
    public mutating func replace(into effects: inout [Effect]) {
        isUnused = false
        end(Code.backOff, &effects)
    }

    /// The connection is gone.
    public mutating func lose(into effects: inout [Effect]) {
        guard state != .ended else { return }
        let former = state
        state = .ended
        if former != .registering { leave(&effects) }
    }

    /// Ends a device that no channel needs.
    private mutating func leave(_ effects: inout [Effect]) {
        guard isUnused, let device, let credential else { return }
        isUnused = false
        effects.append(.operation(.unregisterUnused(device, by: .device(credential)), .farewell))
    }
}

/// What the metrics count of user agents.
public enum PushServiceNote: Hashable, Sendable {
    case registered, complained, lost, skipped
    case acknowledged(Fate)

    /// What a user agent did with a notification.
    public enum Fate: String, CaseIterable, Sendable {
        case delivered, undecipherable, undelivered

        /// Codes of an acknowledgement: 101 says that the decryption failed, 102 any other failure.
        init(code: Int64) {
            switch code {
            case 101: self = .undecipherable
            case 102: self = .undelivered
            default: self = .delivered
            }
        }
    }
}

/// What a session asks of the keys.
protocol PushIdentities {
    /// The device as an id under the key for new ids names it, and its credential.
    func device(_ new: NewRegistration) -> (Registration, DeviceMAC)?
    func userAgent(_ new: NewRegistration) -> [UInt8]
    func endpoint(of address: ChannelAddress) -> [UInt8]
}
