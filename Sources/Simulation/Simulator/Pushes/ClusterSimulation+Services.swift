import Model
import Partitions

// Projects' push services come and go: an operator switches one on or off now and then.

extension ClusterSimulation {
    /// Each project has every service.
    func setAllServices() {
        guard options.changesServices else { return }
        mendSettings()
        for project in projects { set(Transport.Kind.allCases, of: project) }
    }

    func scheduleServices() {
        guard options.changesServices, options.servicesGapMax > .zero else { return }
        after(roll(options.servicesGapMax), .client) {
            guard self.isLoading, !self.isHealing else { return }
            let project = self.projects[Int(self.roll(UInt64(self.projects.count)))]
            let kind = Transport.Kind.allCases[Int(self.roll(UInt64(Transport.Kind.allCases.count)))]
            let former = self.kinds(servedOf: project)
            self.set(former.contains(kind) ? former.filter { $0 != kind } : former + [kind], of: project)
            self.scheduleServices()
        }
    }

    /// When everything has settled some projects lose a service without which each of their devices has
    /// another: what waits for that service must go to the other one.
    func setLastServices() {
        guard options.changesServices else { return }
        for project in projects {
            let devices = clients.indices.filter { clients[$0].project == project }.map { pushKind($0).kinds }
            let spare = Transport.Kind.allCases.filter { kind in !devices.contains([kind]) }
            guard !spare.isEmpty, roll(3) > 0 else { continue }
            let lost = spare[Int(roll(UInt64(spare.count)))]
            set(Transport.Kind.allCases.filter { $0 != lost }, of: project)
        }
    }

    func set(_ kinds: [Transport.Kind], of project: ProjectNumber) {
        var services = PushAddress.services(kinds)
        services.settings = pushSettings[project]
        guard home.catalog.services[project] != services else { return }
        count("changes of services")
        debug("project \(project.rawValue) has services \(kinds.map(\.word))")
        home.change(project, to: services)
    }

    func kinds(servedOf project: ProjectNumber) -> [Transport.Kind] {
        guard options.changesServices else { return Transport.Kind.allCases }
        return home.catalog.services[project]?.kinds ?? []
    }

    /// The service to which the client's messages go now.
    func lastKind(_ client: Int) -> Transport.Kind? {
        let served = kinds(servedOf: clients[client].project)
        return pushKind(client).kinds.first { served.contains($0) }
    }

    /// When everything has settled, each partition knows the services of all projects.
    func servicesDiffer() -> [Violation] {
        guard options.changesServices else { return [] }
        return slots.compactMap(\.process).filter(\.isRunning).flatMap(\.partitions).flatMap { partition in
            projects.filter { partition.pushServices?[$0] != home.catalog.services[$0] }.map {
                Violation(
                    "services", "partition \(partition.id.rawValue) does not know the services of \($0)")
            }
        }
    }
}

extension PushServices {
    var kinds: [Transport.Kind] { Transport.Kind.allCases.filter(has) }
}
