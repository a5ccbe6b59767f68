import Model
import Partitions
import Placement

extension Operation {
    /// The request and its partition, if the operation costs no quota and a single partition answers; `nil`
    /// for the other operations.
    func question(_ partitionCount: Int) -> (request: Request, partition: PartitionID)? {
        switch self {
        case .subscriptions(let registration, let caller):
            (.subscriptions(of: registration, by: caller), registration.partition)
        case .subscription(let registration, let topic, let caller):
            (.subscription(of: registration, to: topic, by: caller), registration.partition)
        case .unregister(let registration, let caller):
            (.unregister(registration, by: caller), registration.partition)
        case .unregisterUnused(let registration, let caller):
            (.unregisterUnused(registration, by: caller), registration.partition)
        case .acknowledge(let registration, let caller, let event):
            (.acknowledge(registration, by: caller, event), registration.partition)
        case .setTransport(let registration, let caller, let transport):
            (.setTransport(registration, by: caller, transport), registration.partition)
        case .endTransport(let registration, let caller, let kind):
            (.endTransport(registration, by: caller, kind), registration.partition)
        case .device(let registration, let caller):
            (.device(registration, by: caller), registration.partition)
        case .topic(let project, let name):
            (
                .members(project: project, name),
                Placement.partition(of: name, in: project, count: partitionCount)
            )
        case .send, .refusedSend, .changeSubscriptions, .refusedChanges, .register, .topics, .devices,
            .pushes:
            nil
        }
    }
}
