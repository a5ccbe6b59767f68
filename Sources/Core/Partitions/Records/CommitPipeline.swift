import Bytes
import Model

/// Evidence that the journal holds a partition's records up to `upTo`, under an epoch that was confirmed.
///
/// A partition says everything to others (answers, frames, pushes) as `Proven`. A `Proven` cannot be created
/// without a proof that reaches the record on which the value rests. Only the pipeline creates proofs.
public struct Proof: Sendable {
    public let upTo: Sequence
    fileprivate init(upTo: Sequence) { self.upTo = upTo }
}

/// A value that rests on durable records alone.
public struct Proven<Value: Sendable>: Sendable {
    public let value: Value
    init(_ value: Value, restingOn sequence: Sequence, by proof: Proof) {
        precondition(sequence <= proof.upTo, "nothing leaves on memory alone")
        self.value = value
    }
}

/// What must wait until a record is durable (rule: nothing-on-memory-alone).
struct Gated {
    var answers: [Answer] = []
    /// Partitions for which the record created outbox entries.
    var touched = PartitionSet()
    /// Partitions whose outbox entries the record applied.
    var applied = PartitionSet()
    var deliveries: [PartitionState.Delivery] = []
    /// Conditions that the record accepted.
    var tickets: [ConditionTicket] = []
    /// Streams that go on when the record is durable.
    var continuing: [(stream: StreamID, device: UInt32)] = []
    /// Devices that registered an address.
    var addressed: [UInt32] = []
    /// The messages that devices lose by the record.
    var drops = MessageDrops()
    /// How many bodies the record says are gone.
    var bodiesGone = 0
    /// What else is true when the record is durable: a former owner writes none.
    var notices: [PartitionNotice] = []
    /// Streams that begin behind what their devices acknowledged by coming back. The record may have been on
    /// its way before the streams came. Then it says nothing about the session now, and they need a
    /// confirmation.
    var beginning: [(stream: StreamID, device: DeviceIndex, needsConfirmation: Bool)] = []
}

/// An answer, and what it still waits for.
struct Answer {
    enum Recipient {
        case request(RequestID)
        case question(ConditionQuestion)
        case stream(StreamID)
        /// A stream that may begin.
        case beginning(StreamID, DeviceIndex)
        /// A stream whose device is unregistered.
        case end(StreamID, DeviceIndex)
    }
    var to: Recipient
    var reply: Reply
    /// The receivers of these outboxes must have acknowledged up to these numbers.
    var outboxes: [OutboxMark] = []
    /// Nothing was appended after the question came, so the epoch must be confirmed.
    var needsConfirmation = false
    /// A send: its fate is unknown when the journal is lost. False for an operation that may be done twice.
    var isSend = false
    /// The answer to a repeated send: an earlier try may be durable, whatever becomes of records in flight.
    var isRepeat = false
}

/// The records that a partition is writing: one open, some in flight, the rest durable.
struct CommitPipeline {
    struct InFlight {
        var sequence: Sequence
        var bytes: Int
        var gated: Gated
        /// How far the record applied the outboxes of other partitions.
        var marks: [(partition: PartitionID, mark: InboxMark)]
    }
    private(set) var durable: Sequence
    var inFlight: [InFlight] = []
    /// The facts of the record that is still open.
    private var writer = ByteWriter()
    private var cursor: PartitionState.Cursor
    var gated = Gated()
    /// Whether anything waits for the open record. Otherwise the record may wait for more facts.
    var isUrgent = false

    init(durable: Sequence) {
        self.durable = durable
        cursor = PartitionState.Cursor(record: durable.next)
    }

    /// The sequence that the open record will have.
    var openSequence: Sequence { cursor.record }
    var isOpenEmpty: Bool { writer.count == 0 }
    var openBytes: Int { writer.count }
    /// Bytes of the longest outbox entry that the open record makes.
    var openEntryBytes: Int { cursor.entryBytes }

    /// The stream goes on when `record` is durable, which it is not yet.
    mutating func continues(_ reader: (stream: StreamID, device: UInt32), behind record: Sequence) {
        if let index = inFlight.firstIndex(where: { $0.sequence == record }) {
            inFlight[index].gated.continuing.append(reader)
        } else {
            gated.continuing.append(reader)
            isUrgent = true
        }
    }

    /// Folds a fact into the state and writes it into the open record.
    mutating func propose(_ fact: Fact, to state: inout PartitionState) {
        fact.encode(into: &writer)
        state.apply(fact, &cursor)
        if !cursor.touched.isEmpty {
            gated.touched.formUnion(cursor.touched)
            cursor.touched.removeAll()
        }
        if !cursor.deliveries.isEmpty {
            gated.deliveries.append(contentsOf: cursor.deliveries)
            cursor.deliveries.removeAll(keepingCapacity: true)
        }
        if !state.log.drops.isEmpty { gated.drops.add(state.log.takeDrops()) }
    }

    /// What records in flight have applied of the partition's outbox is not acknowledged.
    mutating func forgetMarks(of partition: PartitionID) {
        for index in inFlight.indices { inFlight[index].marks.removeAll { $0.partition == partition } }
    }

    /// The ticket that the next accepted condition will have.
    var nextTicket: ConditionTicket { ConditionTicket(record: cursor.record, ordinal: cursor.ordinal) }

    /// Closes the open record; `nil` if nothing is in it.
    mutating func seal(_ state: inout PartitionState) -> (sequence: Sequence, body: [UInt8])? {
        guard !isOpenEmpty else { return nil }
        let sequence = openSequence
        let body = writer.bytes
        var marks: [(partition: PartitionID, mark: InboxMark)] = []
        for partition in gated.applied.sorted() {
            if let mark = state.marks[partition] { marks.append((partition, mark)) }
        }
        inFlight.append(InFlight(sequence: sequence, bytes: body.count, gated: gated, marks: marks))
        state.applied = sequence
        writer = ByteWriter(capacity: min(body.count, 1 << 16))
        gated = Gated()
        isUrgent = false
        cursor = PartitionState.Cursor(record: sequence.next)
        return (sequence, body)
    }

    /// The oldest record in flight became durable. Returns what waited for the record, with the proof.
    mutating func becameDurable(
        _ sequence: Sequence
    ) -> (Gated, [(partition: PartitionID, mark: InboxMark)], Proof)? {
        guard let first = inFlight.first, first.sequence == sequence else { return nil }
        inFlight.removeFirst()
        durable = sequence
        return (first.gated, first.marks, Proof(upTo: sequence))
    }

    /// Proof of all durable records. An answer about the state may rest on it only if the session was seen
    /// alive after the question came.
    func confirmed() -> Proof { Proof(upTo: durable) }

    /// Makes an answer wait for everything that was folded before the question came.
    mutating func hold(_ answer: Answer) {
        var answer = answer
        if !isOpenEmpty {
            answer.needsConfirmation = false
            gated.answers.append(answer)
            isUrgent = true
        } else if inFlight.isEmpty {
            preconditionFailure("with nothing in flight the answer waits for a confirmation alone")
        } else {
            answer.needsConfirmation = true
            inFlight[inFlight.count - 1].gated.answers.append(answer)
        }
    }

    /// Makes a stream's beginning wait for everything that was folded before. False if all is durable.
    mutating func hold(_ stream: StreamID, _ device: DeviceIndex) -> Bool {
        if !isOpenEmpty {
            gated.beginning.append((stream, device, false))
            isUrgent = true
        } else if inFlight.isEmpty {
            return false
        } else {
            inFlight[inFlight.count - 1].gated.beginning.append((stream, device, true))
        }
        return true
    }

    /// Takes out the streams that wait for a record before they begin.
    mutating func takeBeginning(
        where isMeant: (StreamID) -> Bool
    ) -> [(stream: StreamID, device: DeviceIndex)] {
        var taken: [(stream: StreamID, device: DeviceIndex)] = []
        func collect(from gated: inout Gated) {
            taken += gated.beginning.filter { isMeant($0.stream) }.map { ($0.stream, $0.device) }
            gated.beginning.removeAll { isMeant($0.stream) }
        }
        for index in inFlight.indices where !inFlight[index].gated.beginning.isEmpty {
            collect(from: &inFlight[index].gated)
        }
        if !gated.beginning.isEmpty { collect(from: &gated) }
        return taken
    }

    var isIdle: Bool { isOpenEmpty && inFlight.isEmpty }
}
