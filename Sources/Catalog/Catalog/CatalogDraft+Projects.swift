import Credentials
import Journal
import Model
import NodeCore
import Quotas

// Projects and their quotas. An operator's change of a project, a credential or a node is one method of a
// draft, which a test can call on an engine in memory.

extension CatalogDraft {
    /// Finds the project, or creates it. Numbers rise, and none is used twice.
    @discardableResult
    package mutating func ensureProject(
        _ id: String, in map: NodeMap
    ) throws -> (project: Project, isNew: Bool) {
        if let project = contents.directory.byID[id] { return (project, false) }
        let last = try engine.get(.setting, key: Catalog.lastNumberKey).map(Catalog.projectNumber) ?? 0
        guard last + 1 < ProjectNumber.limit else { throw EngineError.refused("no project numbers are left") }
        let number = last + 1
        writes.put(
            .setting, key: Catalog.lastNumberKey,
            value: [UInt8(number >> 16), UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF)])
        let project = Project(id: id, number: ProjectNumber(number))
        if engine is any ClusterEngine {
            let home = map.home(of: project.number)
            if let epoch = try engine.partitions().first(where: { $0.id == home })?.epoch {
                Catalog.putBirth(project.number, epoch, to: &writes)
                contents.births[project.number] = epoch
            }
        }
        Catalog.put(project, [:], to: &writes)
        contents.directory.add(project)
        return (project, true)
    }

    /// Creates the project with a service account. A project of a development server, which has none, gets
    /// one.
    package mutating func createProject(
        _ id: String, _ key: ServiceAccountKey, tokenURI: String, in map: NodeMap, now: WallTime
    ) throws -> ServiceAccountFile {
        let (project, isNew) = try ensureProject(id, in: map)
        guard isNew || !contents.directory.hasAccount(project.number) else {
            throw ChangeRefusal(.conflict, "The project exists already.")
        }
        let credential = Credential(kind: .serviceAccount, project: project.number, created: now)
        return try add(key, credential, of: project, tokenURI: tokenURI, now: now)
    }

    /// Changes the quotas that `changes` names.
    package mutating func setQuotas(
        of project: Project, _ changes: [String: UInt64]
    ) throws -> QuotaLimits {
        try check(project)
        let limits = (contents.limits[project.number] ?? [:]).merging(changes) { $1 }
        Catalog.put(project, limits, to: &writes)
        contents.limits[project.number] = limits
        return QuotaLimits(named: limits)
    }

    /// Another operator may have deleted the project meanwhile.
    func check(_ project: Project) throws {
        guard contents.directory.byNumber[project.number] != nil else {
            throw EngineError.refused("the project \(project.id) was deleted")
        }
    }
}
