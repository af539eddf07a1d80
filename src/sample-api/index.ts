export { sampleApiComponent } from './component.ts'
export { openUserBook, PRESET_USER } from './user-book.ts'
export { usersInFolder } from './user-file.ts'
export { addUser, changePassword, removeUser, type Users } from './users.ts'
