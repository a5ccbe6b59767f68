import Model

#if DEBUG
    /// Bugs that tests plant to show that a checker sees them. Only in debug builds, and only if a simulation
    /// asks.
    public struct PlantedBug: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// An answer leaves while its record is only in memory (rule: nothing-on-memory-alone).
        public static let answerBeforeDurable = PlantedBug(rawValue: 1)
        /// Outbox entries are offered before their record is durable (rule: outbox-order).
        public static let offerBeforeDurable = PlantedBug(rawValue: 2)
        /// A receiver acknowledges what it has only in memory (rule: outbox-order).
        public static let acknowledgeVolatile = PlantedBug(rawValue: 4)
        /// A receiver applies an entry that does not follow its mark (rule: outbox-order).
        public static let skipPredecessor = PlantedBug(rawValue: 8)
        /// A new owner forgets how far others' outboxes were applied (rule: outbox-order).
        public static let forgetMarks = PlantedBug(rawValue: 16)
        /// A message is pushed before its record is durable (rule: nothing-on-memory-alone).
        public static let pushBeforeDurable = PlantedBug(rawValue: 32)
        /// A device's acknowledgement is answered without a record (rule: durable-acknowledgements).
        public static let acknowledgeUnrecorded = PlantedBug(rawValue: 64)
        /// A new owner does not offer again what was not acknowledged (rule: devices-decide).
        public static let forgetOutboxes = PlantedBug(rawValue: 128)
        /// The answer to a change of subscriptions does not wait for T (rule: proven-answers).
        public static let unprovenRepeat = PlantedBug(rawValue: 256)
        /// A pair whose fingerprints differ is not repaired (rule: fingerprints-repair).
        public static let noRepair = PlantedBug(rawValue: 1024)
        /// A device is notified of a loss that is only in memory (rule: nothing-on-memory-alone).
        public static let tellVolatileLoss = PlantedBug(rawValue: 2048)
        /// A repeated request is taken for a new one (rule: repeats-do-not-double).
        public static let forgetWindow = PlantedBug(rawValue: 4096)
        /// A send whose fate is not known is answered as refused (rule: unknown-is-an-outcome).
        public static let unknownAsRefused = PlantedBug(rawValue: 16384)
        /// A snapshot is named before the records that it covers are durable (rule: fenced-snapshots).
        public static let snapshotVolatile = PlantedBug(rawValue: 8192)
        /// A stream is taken for live though something waits for it (rule: catch-up-before-live).
        public static let skipCatchUp = PlantedBug(rawValue: 512)
        /// A message whose time to live is over is delivered nevertheless (rule: bounded-fanouts).
        public static let deliverLate = PlantedBug(rawValue: 32768)
        /// Bodies that devices wait for are trimmed away (rule: delete-on-durable-only).
        public static let forgetBodies = PlantedBug(rawValue: 65536)
        /// The journal is trimmed to the newest snapshot, so that nobody can read on from the older snapshot
        /// (rule: fenced-snapshots).
        public static let trimToNewest = PlantedBug(rawValue: 131_072)
        /// Unfinished fan-outs are not bounded (rule: bounded-fanouts).
        public static let unboundedFanouts = PlantedBug(rawValue: 262_144)
        /// A message that a partition has taken over still counts as unfinished (rule: bounded-fanouts).
        public static let leakFanouts = PlantedBug(rawValue: 524_288)
        /// Numbers of outboxes go on as they were when a database has lost its end
        /// (rule: lost-ends-raise-the-generation).
        public static let keepNumbers = PlantedBug(rawValue: 2_097_152)
        /// In a new generation partitions of different databases are not compared
        /// (rule: lost-ends-raise-the-generation).
        public static let skipComparison = PlantedBug(rawValue: 4_194_304)
        /// The windows of a fenced gateway go immediately, though the gateway may not know of the fence
        /// (rule: repeats-do-not-double).
        public static let evictAtOnce = PlantedBug(rawValue: 1_048_576)
        /// Of the answers that wait for one record, only the first leaves (rule: proven-answers).
        public static let forgetAnswers = PlantedBug(rawValue: 8_388_608)
        /// A device that is brought up to date is notified of a loss, though nothing was dropped
        /// (rule: losses-are-told).
        public static let tellLossOfNothing = PlantedBug(rawValue: 16_777_216)
        /// A stream takes the place of another, and the replaced stream's gateway is not notified
        /// (rule: one-state-on-two-sides).
        public static let keepReplaced = PlantedBug(rawValue: 33_554_432)
        /// A full record takes more facts (rule: bounded-bytes).
        public static let growRecords = PlantedBug(rawValue: 67_108_864)
        /// A new owner does not look for messages that wait for push services (rule: pushes-read-the-log).
        public static let forgetPushes = PlantedBug(rawValue: 134_217_728)
        /// That a push service has a message is not recorded (rule: pushes-read-the-log).
        public static let forgetAccepted = PlantedBug(rawValue: 268_435_456)
        /// An address stays that a push service does not know any more (rule: gone-by-generation).
        public static let keepGone = PlantedBug(rawValue: 536_870_912)
        /// The answer that an address is gone ends the address that the device registered since
        /// (rule: gone-by-generation).
        public static let endNewAddress = PlantedBug(rawValue: 1_073_741_824)
        /// A message that ends for streams ends for push services as well (rule: ends-of-their-own).
        public static let endWithStreams = PlantedBug(rawValue: 2_147_483_648)
        /// A message is pushed for as long as it waits for a stream (rule: ends-of-their-own).
        public static let pushPastEnd = PlantedBug(rawValue: 4_294_967_296)
        /// A message leaves the log when a push service has taken it, though its device acknowledges itself
        /// (rule: kept-until-acknowledged).
        public static let dropKept = PlantedBug(rawValue: 8_589_934_592)
        /// A failed attempt for a TTL-0 message is repeated (rule: ends-of-their-own).
        public static let attemptAgain = PlantedBug(rawValue: 17_179_869_184)
        /// A device ends because its address was gone, though it has registered another since
        /// (rule: unreachable-devices-end).
        public static let endReachable = PlantedBug(rawValue: 34_359_738_368)
        /// A message does not wait for the stream of a device that listens (rule: pushes-read-the-log).
        public static let forgetGrace = PlantedBug(rawValue: 1 << 40)
        /// One service may have all slots of a partition (rule: push-services-are-spared).
        public static let takeAllSlots = PlantedBug(rawValue: 1 << 41)
        /// A message goes to an address for which the project has no service, though the device has another
        /// one for which it has (rule: pushes-read-the-log).
        public static let pushUnserved = PlantedBug(rawValue: 1 << 42)
        /// What waits at a service goes on waiting there when the project's services change
        /// (rule: pushes-read-the-log).
        public static let stayAtFormer = PlantedBug(rawValue: 1 << 43)
        /// A service that has refused a project's key once is taken to refuse the key for ever
        /// (rule: refused-keys-are-told).
        public static let keepRefusedKeys = PlantedBug(rawValue: 1 << 44)
        /// A sender and a receiver believe marks that do not fit together (rule: denied-marks).
        public static let denyNothing = PlantedBug(rawValue: 1 << 46)
        /// The sender of a condition is answered before the devices have decided
        /// (rule: conditions-at-the-devices).
        public static let answerUndecided = PlantedBug(rawValue: 1 << 50)
        /// A read of a device's topics does not wait for the topics' partitions
        /// (rule: reads-rest-on-both-ends).
        public static let readAhead = PlantedBug(rawValue: 1 << 51)
        /// A receiver takes the times of a frame for times of the receiver's clock (rule: ages-travel).
        public static let believeTimes = PlantedBug(rawValue: 1 << 52)
        /// A message for a doubted device is tried again immediately (rule: one-word-ends-nothing).
        public static let holdNothing = PlantedBug(rawValue: 1 << 53)
        /// The answer "already subscribed" does not wait for T (rule: proven-answers).
        public static let unprovenAlready = PlantedBug(rawValue: 1 << 54)
        /// A partition counts only its own marks of gone addresses (rule: one-word-ends-nothing).
        public static let brakeAlone = PlantedBug(rawValue: 1 << 55)
        /// The sender of a condition is answered at the first retry, without partitions that are there
        /// (rule: conditions-at-the-devices).
        public static let impatient = PlantedBug(rawValue: 1 << 56)

        /// - Parameter already: the answer says that nothing changes.
        func unproves(already: Bool) -> Bool {
            contains(.unprovenRepeat) || already && contains(.unprovenAlready)
        }
    }

    extension Partition {
        /// Lets out immediately what should wait for the open record, if a planted bug is on.
        func breakRules(_ turn: inout Turn) {
            let proof = pipeline.confirmed()
            if options.planted.contains(.answerBeforeDurable) {
                for answer in pipeline.gated.answers { release(answer, by: proof, &turn) }
                pipeline.gated.answers = []
            }
            if options.planted.contains(.offerBeforeDurable) {
                for partition in pipeline.gated.touched.sorted() {
                    guard let entry = state.outboxes[partition]?.unacknowledged.last else { continue }
                    let frame = frame([entry], to: partition, turn.now)
                    turn.effects.append(.offer(to: partition, Proven(frame, restingOn: .zero, by: proof)))
                    offered[partition] = Offered(upTo: entry.number, at: turn.now.monotonic)
                }
                pipeline.gated.touched.removeAll()
            }
            if options.planted.contains(.acknowledgeVolatile) {
                for partition in pipeline.gated.applied.sorted() {
                    durableMarks[partition] = state.marks[partition]
                    acknowledge(to: partition, by: proof, &turn)
                }
            }
            if options.planted.contains(.pushBeforeDurable) {
                push(pipeline.gated.deliveries, by: proof, &turn)
                pipeline.gated.deliveries = []
            }
        }
    }
#endif
