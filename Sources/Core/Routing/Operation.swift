import Model
import Partitions
import Quotas

// The operations that the API asks of the core, and the core's outcomes. The API, a module above this one,
// translates FCM's wire forms into `Operation`, and `Outcome` back into them. The router and the partitions
// decide everything in between.

/// One request, checked for form and authority, with every registration id deciphered.
public enum Operation: Sendable {
    case send(Send)
    /// A send that the API refuses for its content: it costs a token, as at FCM, and nothing else happens.
    /// Answered with `.done`.
    case refusedSend(project: ProjectNumber)
    /// Changes that the API refuses for their content: a malformed batch, or a batch of false tokens. Each
    /// costs a token, and nothing else happens. Answered with `.done`.
    case refusedChanges(project: ProjectNumber, count: Int)
    case changeSubscriptions(SubscriptionChange)
    /// The topics to which a device is subscribed, with the dates. Answered with `.subscriptions`.
    case subscriptions(of: Registration, by: Caller)
    /// Whether a device is subscribed to one topic. Answered with `.subscriptions`: that topic, or none.
    case subscription(of: Registration, to: TopicName, by: Caller)
    case register(project: ProjectNumber)
    case unregister(Registration, by: Caller)
    /// Ends a device that has no topic and no stream; answered with `.done` also if the device has one.
    case unregisterUnused(Registration, by: Caller)
    case acknowledge(Registration, by: Caller, EventID)
    /// A device's address at a push service. Answered with `.done`, when it is durable.
    case setTransport(Registration, by: Caller, Transport)
    /// Answered with `.done`.
    case endTransport(Registration, by: Caller, Transport.Kind)
    /// Answered with `.device`.
    case device(Registration, by: Caller)
    /// Members of one topic. Answered with `.topic`.
    case topic(project: ProjectNumber, TopicName)
    /// Topics of a project in no stated order, page by page. Answered with `.topics`.
    case topics(project: ProjectNumber, page: PageToken?, limit: Int)
    /// Devices of a project, page by page. Answered with `.devices`.
    case devices(project: ProjectNumber, page: PageToken?, limit: Int)
    /// How push services have answered to a message, as all partitions' owners have seen. Answered with
    /// `.pushes`.
    case pushes(project: ProjectNumber, of: MessageID)
}

/// The authority for an operation on a device: a backend's, or the device's own.
public typealias Caller = Authority

public struct Send: Sendable {
    public enum Target: Sendable {
        case topic(TopicName)
        case condition(Condition)
        case device(Registration)
    }
    public var project: ProjectNumber
    public var target: Target
    public var message: Envelope
    /// Everything is checked, also the registration; nothing is delivered.
    public var validateOnly: Bool
    public init(project: ProjectNumber, target: Target, message: Envelope, validateOnly: Bool) {
        self.project = project
        self.target = target
        self.message = message
        self.validateOnly = validateOnly
    }
}

public struct SubscriptionChange: Sendable {
    public typealias Kind = Request.ChangeKind
    public var project: ProjectNumber
    public var kind: Kind
    public var topic: TopicName
    /// In the caller's order; a device may occur twice.
    public var devices: [Registration]
    public var caller: Caller
    /// Tokens of the request that name no device of the project. They cost what changes cost.
    public var falseTokens: Int
    public init(
        project: ProjectNumber, kind: Kind, topic: TopicName, devices: [Registration],
        caller: Caller = .backend, falseTokens: Int = 0
    ) {
        self.project = project
        self.kind = kind
        self.topic = topic
        self.devices = devices
        self.caller = caller
        self.falseTokens = falseTokens
    }
}

/// The continuation of a listing: the partition, and a cursor that only the partition understands.
public struct PageToken: Hashable, Sendable {
    public var partition: PartitionID
    public var cursor: UInt64
    public init(partition: PartitionID, cursor: UInt64) {
        self.partition = partition
        self.cursor = cursor
    }
}

public enum Outcome: Sendable {
    /// The message is durable.
    case accepted(MessageID)
    /// One for each device, in the order of the request.
    case changes([ChangeOutcome])
    case subscriptions([Subscription])
    /// The same of a device that push services reach, by these.
    case reachable([Subscription], by: [Transport.Kind])
    case registered(NewRegistration)
    /// The answer to unregistering, to an acknowledgement, and to sends that are refused or only validated.
    case done
    case topic(members: UInt64)
    case topics([(name: TopicName, members: UInt64)], next: PageToken?)
    case devices([DeviceSummary], next: PageToken?)
    /// The device's own state, without its registration, and the push services that reach it.
    case device(DeviceState, [StoredTransport], pushes: [PushHistory] = [])
    case pushes([PushTally])
    case refused(Refusal)
}

/// The outcome of a subscription change for one device.
public enum ChangeOutcome: Hashable, Sendable {
    /// The change is durable, and in force for every send that is accepted from now on; with the day of the
    /// change.
    case changed(Day)
    /// The device was subscribed already (since that day), or not subscribed (`nil`).
    case unchanged(Day?)
    case refused(Refusal)
}

public struct Subscription: Hashable, Sendable {
    public var topic: TopicName
    public var since: Day
    public init(topic: TopicName, since: Day) {
        self.topic = topic
        self.since = since
    }
}

public struct NewRegistration: Sendable {
    public var registration: Registration
    /// The source of the device's token suffix and credential.
    public var secret: UInt64
    public var created: WallTime
    public init(registration: Registration, secret: UInt64, created: WallTime) {
        self.registration = registration
        self.secret = secret
        self.created = created
    }
}

public struct DeviceSummary: Sendable {
    public var registration: Registration
    public var lastSeen: Day
    public var topicCount: Int
    public var waitingCount: Int
}

/// Why an operation was not done. A refusal on which backends delete tokens is given on proof alone; in doubt
/// the refusal is `.unavailable` (rule: proven-answers).
public enum Refusal: Error, Hashable, Sendable {
    /// No such device (any more). 404 `UNREGISTERED`.
    case unregistered
    /// The token's suffix is not this device's. 400 `INVALID_ARGUMENT`.
    case invalidToken
    /// The registration is of another project. 403 `SENDER_ID_MISMATCH`.
    case senderMismatch
    /// The credential is not this device's. 403 `PERMISSION_DENIED`.
    case wrongCredential
    /// The device has the most topics that it may have. `TOO_MANY_TOPICS`.
    case tooManyTopics
    /// Only push services reach the device, and these refuse the project's key. 401 `THIRD_PARTY_AUTH_ERROR`.
    case pushKeyRefused
    /// Past a quota. 429 `RESOURCE_EXHAUSTED`.
    case quota(QuotaRefusal)
    /// Not done, or done without an answer in time; safe to repeat. 503 `UNAVAILABLE`.
    case unavailable(String)
    /// Unknown whether a partition accepted the send: its deadline passed first. 504 `DEADLINE_EXCEEDED`.
    case deadlineExceeded
}
